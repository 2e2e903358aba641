// Hadamard response: one of a list of answers, as a column of its Hadamard row.

import { range } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { type Columns, index, parity } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { place } from "../values.js";

export const hadamard: Mechanism = {
  name: "hadamard",
  id: 23,
  parts({ categories, epsilon }: { categories: string[]; epsilon: number }) {
    const columns = 2 ** categories.length.toString(2).length;
    const half = BigInt(columns / 2);
    const touches = (value: unknown): Columns => {
      const row = place(categories, value as string) + 1;
      const low = row & -row;
      const column = (odd: number) => (n: number) => {
        const free = ((n & -low) << 1) | (n & (low - 1));
        return free + low * (parity(free & row) ^ odd);
      };
      return Object.assign(range(columns / 2).map(column(0)), { outside: column(1) });
    };
    return [index({ rows: 1, columns, touches }, answers(exact(epsilon), half, half))];
  },
};
