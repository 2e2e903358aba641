import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { checkFile } from "./vectors.mjs";

const FOLDER = new URL("../../../tests/vectors/", import.meta.url);
// messages for a shuffler are for clients that seal each of them by itself
const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json") && name !== "dummies.json");
const read = (name) => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));

for (const name of files) {
  test(`golden vectors: ${name}`, () => {
    const { checked, wrong } = checkFile(read(name));
    assert.deepEqual(wrong, []);
    assert.ok(checked > 0);
  });
}

test("every mechanism has vectors", () => {
  const covered = files.filter((name) => name !== "primitives.json").map((n) => n.slice(0, -5));
  assert.deepEqual(everyMechanism.map(({ name }) => name).sort(), covered.sort());
});

test("twin: one changed digit of one report is found", () => {
  const vectors = read("hcms.json");
  const last = vectors.examples.at(-1).reports.at(-1);
  last[1] = last[1].slice(0, -1) + (parseInt(last[1].at(-1), 16) ^ 1).toString(16);
  assert.ok(checkFile(vectors).wrong.length > 0);
});
