// Reports in two steps: a permanent response, and fresh noise about it.

import { bitsOf, drawColumn, type Columns, type Memory, type Part } from "../kinds.js";
import { exact, exp, keep, type Fraction, UNIT } from "../probability.js";
import { bernoulli, ONE } from "../randomness.js";

/** The part whose reports are drawn in both steps. */
export const inTwoSteps = (part: Part, memory: Memory): Part => ({
  ...part,
  memory,
  draw: (columns, bits) => memory.instantaneous(memory.permanent(memory.cell(columns), bits), bits),
});

/** Bits are kept with `told`, then reported with `high` where the permanent bit is 1, or `low`. */
export const bitMemory = (
  ratio: Fraction,
  columns: number,
  told: bigint,
  low: bigint,
  high: bigint,
): Memory => ({
  ratio,
  cell: bitsOf,
  permanent: (cell, bits) => bernoulli(bits, ONE - told, columns, cell, told),
  instantaneous: (response, bits) => bernoulli(bits, low, columns, response, high),
});

/** A column is told with `told`, and again with `again`. */
export const columnMemory = (
  ratio: Fraction,
  columns: number,
  told: bigint,
  again: bigint,
): Memory => ({
  ratio,
  cell: ([column]: Columns) => BigInt(column!),
  permanent: (cell, bits) => BigInt(drawColumn(bits, told, columns, [Number(cell)])),
  instantaneous: (response, bits) => BigInt(drawColumn(bits, again, columns, [Number(response)])),
});

/** The second step of a memoised report: both together cost `epsilon`. */
export function secondStep(lifetime: bigint, epsilon: bigint, others: bigint) {
  const told = keep(lifetime, others);
  const [all, tens, unit] = [exp(epsilon), 10n ** 50n, ONE * others];
  const whole = all + others * UNIT;
  const limit = (all * tens - whole) * unit - (ONE - told) * whole * tens;
  const again = (ONE * limit) / ((told * (others + 1n) - ONE) * whole * tens);
  if (again >= ONE) throw new RangeError("lifetime_epsilon must be above epsilon");
  const truth = told * again * others + (ONE - told) * (ONE - again);
  const rest = ONE * unit - truth;
  return {
    ...{ told, again },
    lifetimeRatio: [told * others, ONE - told] as const,
    channel: {
      touched: truth / unit,
      untouched: rest / (unit * others),
      told: truth / unit,
      ratio: [truth * others, rest] as const,
    },
  };
}

export interface Lifetime {
  epsilon: number;
  lifetime_epsilon: number;
}

/** `secondStep` of a report of which one of so many columns is true. */
export const stepsOf = (p: Lifetime, columns: number) =>
  secondStep(exact(p.lifetime_epsilon), exact(p.epsilon), BigInt(columns - 1));
