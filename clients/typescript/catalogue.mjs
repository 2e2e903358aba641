// Writes src/mechanisms/index.ts, the list of every mechanism, from the files beside it; `npm run
// build` runs this first.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const folder = new URL("src/mechanisms/", import.meta.url);
const files = readdirSync(folder).filter((file) => file !== "index.ts").sort();
const lines = files.flatMap((file) => {
  const source = readFileSync(new URL(file, folder), "utf8");
  const names = [...source.matchAll(/^export const (\w+): Mechanism =/gm)].map((match) => match[1]);
  return names.length ? [[file.replace(".ts", ".js"), names]] : [];
});
const names = lines.flatMap(([, exported]) => exported);
writeFileSync(new URL("index.ts", folder), `\
// Made by \`npm run build\` from the files beside it. An app that imports few mechanisms is smaller.

import type { Mechanisms } from "../encoder.js";
${lines.map(([file, exported]) => `import { ${exported.join(", ")} } from "./${file}";`).join("\n")}

export const everyMechanism: Mechanisms = [
  ${names.join(",\n  ")},
];

export { ${names.join(", ")} };
`);
