// A number between bounds, rounded to a step at random, and reported as a window of columns.

import { range } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { index, type Part, type Value } from "../kinds.js";
import { answers, exact, exp, UNIT } from "../probability.js";
import type { BitSource } from "../randomness.js";
import { type Bounds, placeBetween, roundAtRandom } from "../values.js";

function windowed(p: Bounds & { epsilon: number }, columns: number, width: number): Part {
  const steps = BigInt(columns - width);
  const touches = (value: Value, _row: number, bits: BitSource) => {
    const [top, bottom] = placeBetween(p, value);
    const step = roundAtRandom([top * steps, bottom], bits);
    return range(width).map((i) => step + i);
  };
  return index({ rows: 1, columns, touches }, answers(exact(p.epsilon), steps, BigInt(width)));
}

export const oneBitMean: Mechanism = {
  name: "one-bit-mean",
  id: 12,
  parts: (p: Bounds & { epsilon: number }) => [windowed(p, 2, 1)],
};

export const piecewise: Mechanism = {
  name: "piecewise",
  id: 13,
  parts(p: Bounds & { epsilon: number; bins: number }) {
    const all = exp(exact(p.epsilon) / 2n) + UNIT; // the width is nearest to bins / all
    const width = Number((2n * BigInt(p.bins) * UNIT + all) / (2n * all));
    return [windowed(p, p.bins, Math.max(1, width))];
  },
};
