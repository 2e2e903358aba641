// What an app may record: texts, listed answers, sets of them, and numbers.

import { digits, toBytes, utf8 } from "./bytes.js";
import type { Columns, Value } from "./kinds.js";
import { type BitSource, bernoulli, indexBelow, ONE } from "./randomness.js";
import type { Fraction } from "./probability.js";

/** Error: the mechanism does not know the value, which the message does not show. */
export class ValueError extends Error {}

export const refuse = (why: string): never => {
  throw new ValueError(why);
};

/** A value that the app cannot write over later: of a set or a list, also with holes, a list; of a
 * BigInt, or an object around a number or a text, what it stands for. */
export const copied = (value: any): Value =>
  Array.isArray(value) || value instanceof Set
    ? Array.from(value, copied)
    : typeof value === "bigint" || value instanceof Number
      ? Number(value)
      : (value?.map?.(Number) ?? (value instanceof String ? `${value}` : value));

/** The bytes of a text, or bytes as they are. */
export function bytesOf(value: Value): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (typeof value !== "string") return refuse("a value must be text");
  try {
    return utf8(value);
  } catch {
    return refuse("a value must be text");
  }
}

/** The text that bytes are in UTF-8. */
function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refuse("a value must be text");
  }
}

/** The place of an answer in a list. */
export function place(list: readonly string[], value: Value): number {
  const text = value instanceof Uint8Array ? textOf(value) : value;
  const at = typeof text === "string" ? list.indexOf(text) : -1;
  return at < 0 ? refuse("a value is not among the answers") : at;
}

const up = (a: number, b: number): number => a - b;

/** The places of a set of answers, ascending; of more than `most` so many, drawn at random, or by a
 * secret from the bytes of the set's point. */
export function places(
  list: readonly string[],
  value: Value,
  most: number,
  bits: BitSource,
): number[] {
  if (!Array.isArray(value)) return refuse("a value must be a list of answers");
  const all = [...new Set(value.map((answer) => place(list, answer)))].sort(up);
  if (all.length > most) {
    const set = all.reduce((sum, at, i) => sum + (BigInt(at + 1) << BigInt(61 * i)), 0n);
    const source = bits.about?.(toBytes(set, (digits(set) >> 3) + 1)) ?? bits;
    for (let i = 0; i < most; i++) {
      const other = i + indexBelow(source, all.length - i);
      [all[i], all[other]] = [all[other]!, all[i]!];
    }
    all.length = most;
  }
  return all.sort(up);
}

/** How a categorical mechanism finds columns. */
export const answerColumns =
  (list: readonly string[]) =>
  (value: Value): Columns => [place(list, value)];

/** How a mechanism finds columns of one answer, or with `most` of a set. */
export const setColumns = (list: readonly string[], most?: number) =>
  most
    ? (value: Value, _row: number, bits: BitSource): Columns => places(list, value, most, bits)
    : answerColumns(list);

const DECIMAL = /^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *$/;

export function numberOf(value: Value): number {
  if (typeof value === "number" && !Number.isNaN(value)) return value;
  const isText = typeof value === "string" && value.length <= 1000 && DECIMAL.test(value);
  return isText ? Number(value) : refuse("a value must be a number");
}

export interface Bounds {
  bounds: readonly [number, number];
  outside: "refuse" | "clip";
}

/** A double as an exact fraction. */
function fraction(x: number): Fraction {
  if (!Number.isFinite(x)) return refuse("a bound is no number");
  let below = 1n;
  for (; !Number.isInteger(x); x *= 2) below *= 2n;
  return [BigInt(x), below];
}

/** The place of a number between its bounds, as an exact fraction of 0 to 1. */
export function placeBetween({ bounds: [low, high], outside }: Bounds, value: Value): Fraction {
  const x = numberOf(value);
  if ((x < low || x > high) && outside !== "clip") refuse("a number is out of bounds");
  const [a, b] = fraction(low);
  const from = ([c, d]: Fraction): Fraction => [c * b - a * d, b * d];
  const [top, bottom] = from(fraction(Math.min(Math.max(x, low), high)));
  const [length, unit] = from(fraction(high));
  return [top * unit, bottom * length];
}

/** A whole number next to a fraction: the upper with the probability of what is left over. */
export function roundAtRandom([top, bottom]: Fraction, bits: BitSource): number {
  const at = (top * ONE) / bottom;
  return Number(at / ONE + bernoulli(bits, at % ONE, 1));
}

/** The bin of a number among equal ones. */
export function equalBin(range: Bounds, bins: number, value: Value): number {
  const [top, bottom] = placeBetween(range, value);
  return Math.min(bins - 1, Number((top * BigInt(bins)) / bottom));
}

/** The letters of a word, padded with character 0. */
export function paddedLetters(length: number, alphabet: string, value: Value): string[] {
  const letters = typeof value === "string" ? [...value] : refuse("a value must be text");
  const known = new Set(alphabet);
  if (letters.some((letter) => !known.has(letter))) refuse("a word has another letter");
  if (letters.length > length) refuse(`a word has more than ${length} letters`);
  return [...letters, ...Array<string>(length - letters.length).fill("\0")];
}
