// RAPPOR n-grams: a string, as noisy filters of a pair of its fragments and of the whole.

import { range, utf8 } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { derivedSeed } from "../hashing.js";
import { bits, type Part, type Value } from "../kinds.js";
import { bitwise, doubleBelow, exact, keep } from "../probability.js";
import { ONE } from "../randomness.js";
import { bytesOf, paddedLetters } from "../values.js";
import { type Filter, filterColumns } from "./bloom.js";

interface Pairs extends Filter {
  epsilon: number;
  length: number;
  alphabet: string;
  fragment: number;
}

/** `epsilon` of one bit; the threshold is rounded down to 53 bits. */
function channelOf(epsilon: bigint, differing: number) {
  const told = keep(epsilon, 1n) & ~2047n;
  return bitwise(told, ONE - told, differing, differing);
}

const pairsOf = (n: number) =>
  range(n).flatMap((i) => range(n - i - 1).map((j) => [i, i + j + 1] as const));

function pairPart(p: Pairs, epsilon: bigint, isPart: boolean): Part {
  const pairs = pairsOf(p.length / p.fragment);
  const touches = (value: Value, row: number) => {
    const letters = paddedLetters(p.length, p.alphabet, value);
    return pairs[Math.floor(row / p.cohorts)]!.flatMap((position, half) => {
      const start = position * p.fragment;
      const fragment = utf8(letters.slice(start, start + p.fragment).join(""));
      return filterColumns(p, row % p.cohorts, fragment).map((i) => half * p.bits + i);
    });
  };
  const shape = { rows: p.cohorts * pairs.length, columns: 2 * p.bits, touches };
  const channel = channelOf(epsilon / BigInt(4 * p.hashes), 2 * p.hashes);
  return bits({ ...shape, blocks: isPart ? pairs.length : 1 }, channel);
}

export const rapporNgramPairs: Mechanism = {
  name: "rappor-ngram-pairs",
  id: 21,
  parts: (p: Pairs) => [pairPart(p, exact(p.epsilon), false)],
};

export const rapporNgrams: Mechanism = {
  name: "rappor-ngrams",
  id: 20,
  parts(p: Pairs & { fragment_epsilon: number }) {
    const epsilon = exact(p.fragment_epsilon);
    const rest = doubleBelow(exact(p.epsilon) - epsilon);
    const seed = derivedSeed("rappor ngrams", p.seed);
    const touches = (value: Value, row: number) => filterColumns(p, row, bytesOf(value));
    const words = bits(
      { rows: p.cohorts, columns: p.bits, touches },
      channelOf(rest / BigInt(2 * p.hashes), p.hashes),
    );
    return [pairPart({ ...p, seed }, epsilon, true), words];
  },
};
