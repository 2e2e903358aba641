// Hierarchical histogram: the bin of a number, or a group of bins, as noisy bits; also by category.

import { range } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { bits, type Value } from "../kinds.js";
import { bitwise, exact, keep } from "../probability.js";
import { ONE } from "../randomness.js";
import { type Bounds, equalBin, numberOf, place, refuse } from "../values.js";

interface Histogram {
  epsilon: number;
  bounds?: Bounds["bounds"];
  buckets: number;
  magnitudes: [number, number];
  signed: boolean;
  branching: number;
  outside: Bounds["outside"];
  by?: readonly string[];
}

/** The largest whole e with 2**e <= x. */
function exponent(x: number): number {
  const near = Math.floor(Math.log2(x));
  return [near - 1, near, near + 1].findLast((e) => 2 ** e <= x)!;
}

/** Bins that are parts of every doubling: their number, and the bin of a value. */
function doublings(p: Histogram): [number, (value: Value) => number] {
  const [low, high] = p.magnitudes;
  const least = exponent(low);
  const most = Math.max(least + 1, exponent(high) + Number(2 ** exponent(high) < high));
  const bins = (most - least) * p.buckets + 2;
  const magnitude = (x: number): number => {
    if (x < 2 ** least) return 0;
    if (x >= 2 ** most) return bins - 1;
    const e = exponent(x);
    return 1 + (e - least) * p.buckets + Math.floor(p.buckets * (x / 2 ** e - 1));
  };
  const bin = (value: Value): number => {
    const x = numberOf(value);
    const isOutside = Math.abs(x) >= 2 ** most || (x < 0 && !p.signed);
    if (isOutside && p.outside !== "clip") refuse("a number is out of bounds");
    if (!p.signed) return x > 0 ? magnitude(x) : 0;
    return bins - 1 + (x < 0 ? -magnitude(-x) : magnitude(x));
  };
  return [p.signed ? 2 * bins - 1 : bins, bin];
}

function binning(p: Histogram): [number, (value: Value) => number] {
  const { bounds, buckets, outside } = p;
  return bounds ? [buckets, (value) => equalBin({ bounds, outside }, buckets, value)] : doublings(p);
}

export const hierarchicalHistogram: Mechanism = {
  name: "hierarchical-histogram",
  id: 25,
  parts(p: Histogram) {
    const [bins, bin] = binning(p);
    const epsilon = exact(p.epsilon);
    const rows = range(64).find((k) => k > 0 && p.branching ** k >= bins)!;
    const columns = bins * (p.by?.length ?? 1);
    const pair = (value: Value): readonly [number, Value] => {
      if (!p.by) return [0, value];
      if (!Array.isArray(value) || value.length !== 2) {
        return refuse("a value must be a list of a category and a number");
      }
      return [place(p.by, value[0]), value[1]];
    };
    const touches = (value: Value, row: number) => {
      const [category, number] = pair(value);
      const width = p.branching ** (rows - 1 - row);
      return [category * Math.ceil(bins / width) + Math.floor(bin(number) / width)];
    };
    const channel = bitwise(keep(epsilon / 4n, 1n), ONE - keep((3n * epsilon) / 4n, 1n));
    return [bits({ rows, columns, touches }, channel)];
  },
};
