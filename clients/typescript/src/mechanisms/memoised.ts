// Memoised randomised response, local hashing and bit flips.

import type { Mechanism } from "../encoder.js";
import { index, type Part, type Shape } from "../kinds.js";
import { bitRatio, exact } from "../probability.js";
import { ONE } from "../randomness.js";
import { answerColumns } from "../values.js";
import { type BitFlip, differing, flipped } from "./bit-flip.js";
import { hashed, type Sketch } from "./sketches.js";
import { bitMemory, columnMemory, inTwoSteps, type Lifetime, secondStep, stepsOf } from "./two-steps.js";

function column(p: Lifetime, shape: Shape): Part {
  const { channel, lifetimeRatio, told, again } = stepsOf(p, shape.columns);
  return inTwoSteps(index(shape, channel), columnMemory(lifetimeRatio, shape.columns, told, again));
}

export const memoisedRr: Mechanism = {
  name: "memoised-rr",
  id: 18,
  parts(p: Lifetime & { categories: string[] }) {
    const touches = answerColumns(p.categories);
    return [column(p, { rows: 1, columns: p.categories.length, touches })];
  },
};

export const memoisedHashing: Mechanism = {
  name: "memoised-hashing",
  id: 19,
  parts: (p: Lifetime & Sketch & { buckets: number }) => [column(p, hashed(p, p.buckets))],
};

export const memoisedBitFlip: Mechanism = {
  name: "memoised-bit-flip",
  id: 22,
  parts(p: BitFlip & Lifetime) {
    const d = differing(p);
    const [lifetime, epsilon] = [exact(p.lifetime_epsilon), exact(p.epsilon)];
    const { channel, told, again } = secondStep(lifetime / BigInt(d), epsilon / BigInt(d), 1n);
    const [above, below] = channel.ratio;
    const ratio = [above ** BigInt(d), below ** BigInt(d)] as const;
    const lifetimeRatio = bitRatio(told, ONE - told, ONE, 1, d - 1);
    const memory = bitMemory(lifetimeRatio, p.bits, told, ONE - again, again);
    return [inTwoSteps(flipped(p, { ...channel, ratio }), memory)];
  },
};
