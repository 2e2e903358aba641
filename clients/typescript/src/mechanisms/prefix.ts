// Prefix extension: the beginning of a word, as one bucket of one row.

import { utf8 } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { column } from "../hashing.js";
import { index, type Value } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { paddedLetters } from "../values.js";
import type { Sketch } from "./sketches.js";

interface Prefix extends Sketch {
  buckets: number;
  length: number;
  alphabet: string;
  groups: number;
}

export const prefix: Mechanism = {
  name: "prefix",
  id: 17,
  parts(p: Prefix) {
    const touches = (value: Value, row: number) => {
      const group = 1 + Math.floor((row * p.groups) / p.rows);
      const letters = paddedLetters(p.length, p.alphabet, value);
      const beginning = letters.slice(0, (group * p.length) / p.groups).join("");
      return [column(p.seed, p.buckets, row, utf8(beginning))];
    };
    const shape = { rows: p.rows, columns: p.buckets, touches };
    return [index(shape, answers(exact(p.epsilon), BigInt(p.buckets - 1)))];
  },
};
