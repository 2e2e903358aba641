// What the system's source is asked for does not depend on whether a report tells the truth.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Encoder, systemBits } from "../dist/encoder.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { bernoulli, ONE } from "../dist/randomness.js";

const answers = (count) => Array.from({ length: count }, (_, i) => `answer ${i}`);
const SKETCH = { epsilon: 1, rows: 4, seed: "00ff" };
/** Each with a power of 2 of lies: below another number is drawn again and again, whatever is told. */
const MECHANISMS = [
  { mechanism: "rr", categories: answers(2), epsilon: 1 },
  { mechanism: "rr", categories: answers(5), epsilon: 3 },
  { mechanism: "local-hashing", buckets: 5, ...SKETCH },
  { mechanism: "hcms", width: 16, ...SKETCH },
  { mechanism: "unary", categories: answers(9), variant: "symmetric", epsilon: 1 },
];

/** The numbers of bits that were drawn for a report. */
function byDrawn(parameters) {
  const [encoder, source] = [new Encoder(parameters, everyMechanism), systemBits()];
  const counts = new Set();
  for (let i = 0; i < 400; i += 1) {
    let drawn = 0;
    const draw = (bits) => ((drawn += bits), source.draw(bits));
    encoder.encode("answer 0", { isSystem: source.isSystem, draw });
    counts.add(drawn);
  }
  return counts;
}

for (const parameters of MECHANISMS) {
  const { mechanism, categories } = parameters;
  test(`lies and truths of ${mechanism} ${categories?.length ?? ""} draw as many bits`, () => {
    const counts = byDrawn(parameters);
    assert.equal(counts.size, 1, [...counts].join());
  });
}

test("a whole number of the system's source is below a threshold exactly where it is less", () => {
  const around = [0n, 1n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 32n + 1n, 5n << 32n, 2n ** 63n, ONE - 1n];
  for (const threshold of [...around, ONE]) {
    for (const number of around) {
      const halves = [number >> 32n, number & 0xffffffffn];
      const drawn = bernoulli({ isSystem: true, draw: () => halves.shift() }, threshold, 1);
      assert.equal(drawn, BigInt(number < threshold), `${number} ${threshold}`);
      const lanes = [7n, 0n, number >> 32n, number & 0xffffffffn]; // the second of two is chosen
      const both = bernoulli({ isSystem: true, draw: () => lanes.shift() }, 0n, 2, 2n, threshold);
      assert.equal(both, 2n * BigInt(number < threshold));
    }
  }
});
