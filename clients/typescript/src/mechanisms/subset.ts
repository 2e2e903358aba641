// Subset selection: one of a list of answers, as a set that holds it more often than not.

import type { Mechanism } from "../encoder.js";
import { subset as subsetPart } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { ONE } from "../randomness.js";
import { answerColumns } from "../values.js";

interface Subset {
  categories: string[];
  epsilon: number;
  size: number;
}

export const subset: Mechanism = {
  name: "subset",
  id: 15,
  parts({ categories, epsilon, size }: Subset) {
    const columns = categories.length;
    const channel = answers(exact(epsilon), BigInt(columns - size), BigInt(size));
    const { told } = channel;
    const untouched = (BigInt(size) * ONE - told) / BigInt(columns - 1);
    const shape = { rows: 1, columns, touches: answerColumns(categories) };
    return [subsetPart(shape, { ...channel, touched: told, untouched }, size)];
  },
};
