// Randomised response: one of a list of answers.

import type { Mechanism } from "../encoder.js";
import { index } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { answerColumns } from "../values.js";

export const rr: Mechanism = {
  name: "rr",
  id: 2,
  parts({ categories, epsilon }: { categories: string[]; epsilon: number }) {
    const shape = { rows: 1, columns: categories.length, touches: answerColumns(categories) };
    return [index(shape, answers(exact(epsilon), BigInt(categories.length - 1)))];
  },
};
