// What is shipped: how large it is, and that it is nothing else.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import * as all from "../dist/mechanisms/index.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { buildSync } from "esbuild";
import { registry } from "./devices.mjs";
import { sizes } from "./sizes.mjs";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(FOLDER, "node_modules", ".bin", "tsc");

test("a page loads at most 22.5 KB with two mechanisms, and 40 KB with all", () => {
  const [two, all] = Object.values(sizes());
  assert.ok(two <= 22_500, `${two}`);
  assert.ok(all <= 40_000, `${all}`);
  assert.ok(two < all);
});

test("one mechanism of the file of all is as large as from a file of its own", () => {
  const bytes = (file) => buildSync({
    ...{ bundle: true, minify: true, format: "esm", write: false },
    stdin: { contents: `export { rr } from "./dist/mechanisms/${file}.js";`, resolveDir: FOLDER },
  }).outputFiles[0].contents.length;
  assert.equal(bytes("index"), bytes("rr"));
});

test("the types are those that an app expects, checked with strict", () => {
  execFileSync(TSC, ["-p", "test"], { cwd: FOLDER, stdio: "pipe" });
});

test("the examples of the README compile with strict, beside a registry in a file", () => {
  const cache = join(FOLDER, ".test_cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "readme-"));
  const put = (name, text) => writeFileSync(join(folder, name), text);
  try {
    const examples = [...readFileSync(join(FOLDER, "README.md"), "utf8").matchAll(/^```js\n(.*?)^```$/gms)];
    assert.equal(examples.length, 2);
    examples.forEach(([, text], i) => put(`example${i}.ts`, text));
    const document = registry();
    document.product.development = document.metrics.word.cleans = true;
    document.metrics.smile.none = ["2.0", 1];
    put("metrics.json", JSON.stringify(document));
    const compilerOptions = { noUnusedLocals: false };
    put("tsconfig.json", JSON.stringify({ extends: "../../test/tsconfig.json", compilerOptions, include: ["."] }));
    const done = spawnSync(TSC, ["-p", folder], { encoding: "utf8" });
    assert.equal(done.stdout, "");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the page says which import and file each mechanism is", async () => {
  const page = readFileSync(join(FOLDER, "../../docs/embedding-web.md"), "utf8");
  const rows = [...page.matchAll(/^\| `([a-z-]+)` \| `(\w+)` \| `([a-z-]+)` \|$/gm)];
  const others = Object.fromEntries(rows.map(([, name, ...rest]) => [name, rest]));
  assert.ok(rows.length > 0);
  for (const mechanism of everyMechanism) {
    const camel = mechanism.name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    const [exported, file] = others[mechanism.name] ?? [camel, mechanism.name];
    const module = await import(`ldp-telemetry/mechanisms/${file}`);
    assert.equal(module[exported], mechanism);
    assert.equal(all[exported], mechanism);
    delete others[mechanism.name];
  }
  assert.deepEqual(others, {});
});

test("the package holds what is needed and nothing else", () => {
  const words = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const said = JSON.parse(execFileSync("npm", words, { cwd: FOLDER, encoding: "utf8" }));
  const [{ files }] = Array.isArray(said) ? said : Object.values(said);
  const paths = files.map(({ path }) => path);
  assert.ok(paths.includes("dist/index.js") && paths.includes("dist/index.d.ts"));
  const known = /^(dist\/.*\.(js|d\.ts)|src\/.*\.ts|package\.json|README\.md|LICENSE)$/;
  assert.deepEqual(paths.filter((path) => !known.test(path)), []);
});
