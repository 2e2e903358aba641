// Unary encoding: one or several of a list of answers, a noisy bit for each.

import type { Mechanism } from "../encoder.js";
import { bits } from "../kinds.js";
import { bitwise, exact, keep, symmetric } from "../probability.js";
import { ONE } from "../randomness.js";
import { setColumns } from "../values.js";

interface Unary {
  categories: string[];
  epsilon: number;
  variant: "symmetric" | "optimized";
  at_most?: number;
}

export const unary: Mechanism = {
  name: "unary",
  id: 4,
  parts(p: Unary) {
    const [all, most] = [p.categories.length, p.at_most ?? 1];
    const others = Math.min(most, all - most);
    const epsilon = exact(p.epsilon);
    const channel =
      p.variant === "optimized"
        ? bitwise(ONE / 2n, ONE - keep(epsilon / BigInt(most), 1n), most, others)
        : symmetric(epsilon / BigInt(most + others), most, others);
    const touches = setColumns(p.categories, p.at_most);
    return [bits({ rows: 1, columns: all, touches }, channel)];
  },
};
