// PrivSet: several of a list of answers, as one set; a pad stands for each that is missing.

import { range } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { subset, type Value } from "../kinds.js";
import { answers, binomial, exact } from "../probability.js";
import { type BitSource, ONE } from "../randomness.js";
import { places } from "../values.js";

interface PrivSet {
  categories: string[];
  epsilon: number;
  at_most: number;
  size: number;
}

export const privset: Mechanism = {
  name: "privset",
  id: 24,
  parts({ categories, epsilon, at_most: most, size }: PrivSet) {
    const all = categories.length;
    const without = binomial(all, size);
    const naming = binomial(all + most, size) - without;
    const channel = answers(exact(epsilon), without, naming);
    const touched = channel.told * binomial(all + most - 1, size - 1);
    const of = naming * BigInt(all);
    const untouched = (ONE * BigInt(size) * naming - BigInt(most) * touched) / of;
    const touches = (value: Value, _row: number, bits: BitSource) => {
      const own = places(categories, value, most, bits);
      return [...own, ...range(most - own.length).map((pad) => all + pad)];
    };
    const shape = { rows: 1, columns: all + most, touches };
    return [subset(shape, { ...channel, touched: touched / naming, untouched }, size)];
  },
};
