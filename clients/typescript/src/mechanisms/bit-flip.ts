// dBitFlip: the bucket of a number, as some of the buckets' noisy bits.

import type { Mechanism } from "../encoder.js";
import { bits, type Part, type Value } from "../kinds.js";
import { bitwise, type Channel, exact, keep } from "../probability.js";
import { ONE } from "../randomness.js";
import { type Bounds, equalBin } from "../values.js";

export interface BitFlip extends Bounds {
  buckets: number;
  bits: number;
  epsilon: number;
}

/** In how many bits two numbers differ. */
export const differing = (p: BitFlip): number => (p.bits > 1 ? 2 : 1);

export function flipped(p: BitFlip, channel: Channel): Part {
  const touches = (value: Value, row: number) => {
    const column = (equalBin(p, p.buckets, value) - row + p.buckets) % p.buckets;
    return column < p.bits ? [column] : [];
  };
  return bits({ rows: p.buckets, columns: p.bits, touches }, channel);
}

export const bitFlip: Mechanism = {
  name: "bit-flip",
  id: 16,
  parts(p: BitFlip) {
    const told = keep(exact(p.epsilon) / BigInt(differing(p)), 1n);
    return [flipped(p, bitwise(told, ONE - told, 1, differing(p) - 1))];
  },
};
