// Numbers of one person together: one product of two of them, drawn at random, as one bit.

import { range } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { index, type Value } from "../kinds.js";
import { answers, exact, type Fraction } from "../probability.js";
import type { BitSource } from "../randomness.js";
import { type Bounds, placeBetween, refuse, roundAtRandom } from "../values.js";

interface Moments {
  features: number;
  bounds: Bounds["bounds"][];
  epsilon: number;
  outside: Bounds["outside"];
}

export const moments: Mechanism = {
  name: "moments",
  id: 14,
  parts({ features, bounds, epsilon, outside }: Moments) {
    const entries = features + 2;
    const pairs = range(entries).flatMap((i) => range(entries - i).map((j) => [i, i + j]));
    const products = pairs.slice(1) as [number, number][];
    const touches = (value: Value, row: number, bits: BitSource) => {
      const list = typeof value === "string" ? value.replace(/[()]/g, "").split(",") : value;
      if (!Array.isArray(list) || list.length !== features + 1) {
        return refuse(`a value must be ${features + 1} numbers`);
      }
      const places = list.map((x, i) => placeBetween({ bounds: bounds[i]!, outside }, x));
      const all: Fraction[] = [[1n, 1n], ...places.map(([n, d]): Fraction => [2n * n - d, d])];
      const [i, j] = products[row]!;
      const [top, bottom] = [all[i]![0] * all[j]![0], all[i]![1] * all[j]![1]];
      return [roundAtRandom(i === j ? [top, bottom] : [top + bottom, 2n * bottom], bits)];
    };
    return [index({ rows: products.length, columns: 2, touches }, answers(exact(epsilon), 1n))];
  },
};
