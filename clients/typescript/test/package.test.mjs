// What is shipped: how large it is, and that it is nothing else.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { sizes } from "./sizes.mjs";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));

test("a page loads at most 20 KB with two mechanisms, and 40 KB with all", () => {
  const [two, all] = Object.values(sizes());
  assert.ok(two <= 20_000, `${two}`);
  assert.ok(all <= 40_000, `${all}`);
  assert.ok(two < all);
});

test("the types are those that an app expects, checked with strict", () => {
  const tsc = fileURLToPath(new URL("../node_modules/.bin/tsc", import.meta.url));
  execFileSync(tsc, ["-p", "test"], { cwd: FOLDER, stdio: "pipe" });
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
