// From a value to a point, and from a point to a column of a row (docs/wire.md, sections 1 to 3).

import { blake2b as noble } from "@noble/hashes/blake2.js";
import { concat, fromHex, message, toBytes, toHex, utf8, words } from "./bytes.js";

const FIELD = (1n << 61n) - 1n;

const word = (n: bigint): bigint => BigInt.asUintN(64, n);
const rotate = (n: bigint, by: bigint): bigint => word((n << by) | (n >> (64n - by)));

/** BLAKE2b with a personalisation, padded with zero bytes. */
export function blake2b(
  person: string,
  length: number,
  data: Uint8Array,
  key?: Uint8Array,
): Uint8Array {
  const personalization = concat(utf8(person), new Uint8Array(16)).subarray(0, 16);
  return noble(data, { dkLen: length, personalization, ...(key && { key }) });
}

/** The point of bytes: MurmurHash3_x64_128, its first word modulo 2**61 - 1. */
export function pointOf(bytes: Uint8Array): bigint {
  const [c1, c2] = [0x87c37b91114253d5n, 0x4cf5ad432745937fn];
  const mix1 = (k: bigint) => word(rotate(word(k * c1), 31n) * c2);
  const mix2 = (k: bigint) => word(rotate(word(k * c2), 33n) * c1);
  const fold = (k: bigint, by: bigint) => word((k ^ (k >> 33n)) * by);
  const final = (k: bigint) => fold(fold(fold(k, 0xff51afd7ed558ccdn), 0xc4ceb9fe1a85ec53n), 1n);
  const blocks = bytes.length >> 4;
  const length = BigInt(bytes.length);
  const k = words(concat(bytes, new Uint8Array(16 - (bytes.length % 16))));
  let [h1, h2] = [0n, 0n];
  for (let i = 0; i < 2 * blocks; i += 2) {
    h1 = word((rotate(h1 ^ mix1(k[i]!), 27n) + h2) * 5n + 0x52dce729n);
    h2 = word((rotate(h2 ^ mix2(k[i + 1]!), 31n) + h1) * 5n + 0x38495ab5n);
  }
  h2 ^= mix2(k[2 * blocks + 1]!) ^ length;
  h1 = word((h1 ^ mix1(k[2 * blocks]!) ^ length) + h2);
  return word(final(h1) + final(word(h2 + h1))) % FIELD;
}

export const rowDigest = (seed: string, row: number): Uint8Array =>
  blake2b("ldp rows v1", 24, toBytes(row, 4), fromHex(seed));

/** The column of `bytes` in a row: a polynomial of degree 2 in their point, drawn by the seed. */
export function column(seed: string, width: number, row: number, bytes: Uint8Array): number {
  const [a, b, c] = words(rowDigest(seed, row)) as [bigint, bigint, bigint];
  const x = pointOf(bytes);
  const hash = (((a % FIELD) * x * x + (b % FIELD) * x + (c % FIELD)) % FIELD) >> 29n;
  return Number((hash * BigInt(width)) >> 32n);
}

/** The seed that texts stand for. */
export const derivedSeed = (...texts: string[]): string =>
  toHex(blake2b("ldp seed v1", 16, message(...texts)));
