// Exact probabilities: whole numbers of 2**-64, never floats (docs/wire.md, section 4).

import { digits } from "./bytes.js";
import { ONE } from "./randomness.js";

/** Fixed-point numbers have 1100 binary places, so that every double is one exactly. */
export const UNIT = 1n << 1100n;

/** A numerator and a denominator. */
export type Fraction = readonly [bigint, bigint];

/** The probabilities of a report, and how many times likelier one value makes it than another. */
export interface Channel {
  readonly touched: bigint;
  readonly untouched: bigint;
  /** P(one of the touched columns), where only one column is reported. */
  readonly told: bigint;
  readonly ratio: Fraction;
}

/** A double as a whole number of 1 / UNIT. Throws RangeError unless it is finite and 0 or more. */
export function exact(x: number): bigint {
  if (!Number.isFinite(x) || x < 0) throw new RangeError("a number is missing or out of range");
  let doublings = 0n;
  for (; !Number.isInteger(x); x *= 2) doublings += 1n;
  return (BigInt(x) * UNIT) >> doublings;
}

/** e**x, of and in 1 / UNIT: from below, by less than 2**-300 of it. */
export function exp(x: bigint): bigint {
  const [coarse, one] = [x >> 700n, UNIT >> 700n]; // 400 binary places are enough, and faster
  let [sum, term] = [0n, one];
  for (let n = 1n; term; n += 1n) {
    sum += term;
    term = (term * coarse) / (one * n);
  }
  return sum << 700n;
}

/** The largest T with T / 2**64 at most e**epsilon / (e**epsilon + others / own). */
export function keep(epsilon: bigint, others: bigint, own = 1n): bigint {
  const truth = exp(epsilon) * own;
  const all = truth + others * UNIT;
  return (ONE * truth * 10n ** 30n - all) / (all * 10n ** 30n);
}

/** One of `own` columns is told, or one of the `others`. */
export function answers(epsilon: bigint, others: bigint, own = 1n): Channel {
  const told = keep(epsilon, others, own);
  const touched = told / own;
  const untouched = (ONE - told) / others;
  return { touched, untouched, told, ratio: [told * others, (ONE - told) * own] };
}

/** Bits that are independent: the worst two values differ in `first` and `second` of them. */
export function bitwise(touched: bigint, untouched: bigint, first = 1, second = 1): Channel {
  return {
    ...{ touched, untouched, told: touched },
    ratio: bitRatio(touched, untouched, ONE, first, second),
  };
}

/** The bitwise channel of e**epsilon for each pair of bits that differ. */
export const symmetric = (epsilon: bigint, first = 1, second = 1): Channel => {
  const told = keep(epsilon, 1n);
  return bitwise(told, ONE - told, first, second);
};

/** The worst ratio, over reports, of two values that differ in `first` and `second` bits. */
export function bitRatio(
  touched: bigint,
  untouched: bigint,
  one: bigint,
  first: number,
  second: number,
): Fraction {
  const of = (a: number, b: number): Fraction => [
    touched ** BigInt(a) * (one - untouched) ** BigInt(b),
    untouched ** BigInt(a) * (one - touched) ** BigInt(b),
  ];
  const [p, q] = [of(first, second), of(second, first)];
  return p[0] * q[1] >= q[0] * p[1] ? p : q;
}

/** Whether a ratio is at most e**epsilon. */
export const isWithin = ([above, below]: Fraction, epsilon: number): boolean =>
  above * UNIT <= exp(exact(epsilon)) * below;

/** The largest double, in 1 / UNIT, that is not above `n`. */
export const doubleBelow = (n: bigint): bigint => {
  const surplus = BigInt(digits(n) - 53);
  return (n >> surplus) << surplus;
};

/** The number of ways to choose `k` of `n`. */
export function binomial(n: number, k: number): bigint {
  if (k < 0 || k > n) return 0n;
  let ways = 1n;
  for (let i = 0; i < k; i += 1) ways = (ways * BigInt(n - i)) / BigInt(i + 1);
  return ways;
}
