// Projective geometry response: one of a list of answers, as a point of its hyperplane. Points are
// vectors of numbers below the prime s whose first number that is not 0 is 1.

import { range } from "../bytes.js";
import type { Mechanism } from "../encoder.js";
import { type Columns, index } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { place } from "../values.js";

const points = (s: number, t: number): number => range(t).reduce((sum, i) => sum + s ** i, 0);

function vector(point: number, s: number, t: number): number[] {
  const free = range(t).findLast((m) => point >= points(s, m))!;
  const rest = point - points(s, free);
  const digits = range(free).map((i) => Math.floor(rest / s ** (free - 1 - i)) % s);
  return [...Array<number>(t - 1 - free).fill(0), 1, ...digits];
}

const inverse = (a: number, s: number): number => range(s).find((b) => (a * b) % s === 1)!;

function pointOf(numbers: number[], s: number): number {
  const first = numbers.findIndex((n) => n);
  const scale = inverse(numbers[first]!, s);
  const digits = numbers.slice(first + 1).map((n) => (n * scale) % s);
  return points(s, digits.length) + digits.reduce((sum, digit) => sum * s + digit, 0);
}

function hyperplane(normal: number[], s: number): Columns {
  const [solved, t] = [normal.findLastIndex((n) => n), normal.length];
  const scale = inverse(normal[solved]!, s);
  const completed = (free: number[], product: number): number => {
    const whole = [...free.slice(0, solved), 0, ...free.slice(solved)];
    const rest = whole.reduce((sum, n, i) => sum - n * normal[i]!, product);
    whole[solved] = (((rest % s) + s) % s) * scale % s;
    return pointOf(whole, s);
  };
  const own = range(points(s, t - 1)).map((i) => completed(vector(i, s, t - 1), 0));
  const outside = (o: number) => completed(range(t - 1).map((i) => Math.floor(o / s ** i) % s), 1);
  return Object.assign(own, { outside });
}

interface Geometry {
  categories: string[];
  epsilon: number;
  field: number;
}

export const pgr: Mechanism = {
  name: "pgr",
  id: 11,
  parts({ categories, epsilon, field }: Geometry) {
    let t = 2;
    while (points(field, t) < categories.length) t += 1;
    const [columns, own] = [points(field, t), points(field, t - 1)];
    const touches = (value: unknown) =>
      hyperplane(vector(place(categories, value as string), field, t), field);
    const channel = answers(exact(epsilon), BigInt(columns - own), BigInt(own));
    return [index({ rows: 1, columns, touches }, channel)];
  },
};
