// Sequence fragment puzzle: a word, as a noisy tagged fragment of it and a noisy whole.

import { concat, toBytes, toInteger, utf8, fromHex } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { blake2b, column, derivedSeed } from "../hashing.js";
import { bits, type Part, type Value } from "../kinds.js";
import { doubleBelow, exact, symmetric } from "../probability.js";
import { paddedLetters } from "../values.js";
import { hashed } from "./sketches.js";

interface Fragments {
  rows: number;
  seed: string;
  width: number;
  length: number;
  alphabet: string;
  fragment: number;
  tag_bits: number;
}

interface Words extends Fragments {
  epsilon: number;
  fragment_epsilon: number;
  fragment_rows: number;
  fragment_width: number;
}

function fragmentPart(p: Fragments, epsilon: bigint, blocks = 1): Part {
  const touches = (value: Value, row: number) => {
    const letters = paddedLetters(p.length, p.alphabet, value);
    const word = blake2b("ldp tag v1", 8, utf8(letters.join("")), fromHex(p.seed));
    const tag = BigInt.asUintN(p.tag_bits, toInteger(word));
    const start = Math.floor((row * p.length) / p.fragment / p.rows) * p.fragment;
    const fragment = utf8(letters.slice(start, start + p.fragment).join(""));
    return [column(p.seed, p.width, row, concat(toBytes(tag, 2), fragment))];
  };
  return bits({ rows: p.rows, columns: p.width, blocks, touches }, symmetric(epsilon / 2n));
}

export const sfpFragments: Mechanism = {
  name: "sfp-fragments",
  id: 9,
  parts: (p: Fragments & { epsilon: number }) => [fragmentPart(p, exact(p.epsilon))],
};

export const sfp: Mechanism = {
  name: "sfp",
  id: 7,
  parts(p: Words) {
    const blocks = p.length / p.fragment;
    const seed = derivedSeed("sfp fragments", p.seed);
    const own = { ...p, rows: p.fragment_rows * blocks, width: p.fragment_width, seed };
    const epsilon = exact(p.fragment_epsilon);
    const rest = doubleBelow(exact(p.epsilon) - epsilon);
    return [fragmentPart(own, epsilon, blocks), bits(hashed(p, p.width), symmetric(rest / 2n))];
  },
};
