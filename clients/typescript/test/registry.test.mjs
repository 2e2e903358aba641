// What a registry may say that does not hold, or that no registry of ours says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Encoder } from "../dist/encoder.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

const RAPPOR = {
  ...{ mechanism: "rappor", bits: 4, hashes: 1, cohorts: 1, seed: "00".repeat(16), f: 0.5 },
  ...{ p: 0.25, q: 0.75, scheme: "identity", categories: ["a", "b", "c", "d"], permanent: "keyed" },
};

test("RAPPOR has probabilities, and one answer or more", () => {
  const encoder = (changed) => new Encoder({ ...RAPPOR, ...changed }, everyMechanism);
  const [top, bottom] = encoder({ at_most: 2 }).ratio;
  assert.ok(top > bottom);
  for (const at_most of [0, false, null, -1, 1.5, "2"]) {
    assert.throws(() => encoder({ at_most, p: 0.01, q: 0.99 }), /at_most is a whole number above 0/);
  }
  for (const changed of [{ f: -0.1 }, { f: 0.9, p: 0.9, q: 1.02 }, { p: -0.02 }, { f: undefined }]) {
    assert.throws(() => encoder(changed), /f, p, q: 0 to 1/);
  }
});
