// Sizes of what a page loads, minified and compressed: node test/sizes.mjs

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const CLIENT = 'export { Client, indexedDbStorage } from "./dist/index.js";';
const ENTRIES = {
  "client with rr and local-hashing": `${CLIENT}
    export { rr } from "./dist/mechanisms/rr.js";
    export { localHashing } from "./dist/mechanisms/local-hashing.js";`,
  "client with every mechanism": `${CLIENT} export * from "./dist/mechanisms/index.js";`,
  "encoder of rr, without the client": `export { Encoder } from "./dist/encoder.js";
    export { rr } from "./dist/mechanisms/rr.js";`,
};

/** Bytes after gzip -9, by entry. */
export const sizes = () =>
  Object.fromEntries(
    Object.entries(ENTRIES).map(([name, contents]) => {
      const { outputFiles } = buildSync({
        ...{ bundle: true, minify: true, format: "esm", target: "es2022", write: false },
        stdin: { contents, resolveDir: FOLDER },
      });
      return [name, gzipSync(outputFiles[0].contents, { level: 9 }).length];
    }),
  );

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, bytes] of Object.entries(sizes())) console.log(`${bytes} bytes: ${name}`);
}
