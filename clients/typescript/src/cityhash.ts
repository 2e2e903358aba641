// CityHash64, version 1.0.3 (Pike and Alakuijala 2011), by which Chromium's RAPPOR client fills its
// filters. All numbers are modulo 2**64; later versions of CityHash have other values.

import { toInteger } from "./bytes.js";

const K0 = 0xc3a5c85c97cb3127n;
const K1 = 0xb492b66fbe98f273n;
const K2 = 0x9ae16a3b2f90404fn;
const K3 = 0xc949d7c7509e6557n;
const MIX = 0x9ddfea08eb382d69n;

const word = (n: bigint): bigint => BigInt.asUintN(64, n);
/** A rotation to the right. */
const turn = (n: bigint, by: number): bigint =>
  (word(n) >> BigInt(by)) | word(word(n) << BigInt(64 - by));
const folded = (n: bigint): bigint => word(n) ^ (word(n) >> 47n);

/** One word of two. */
function mixed(low: bigint, high: bigint): bigint {
  const a = folded((word(low) ^ word(high)) * MIX);
  return word(folded((word(high) ^ a) * MIX) * MIX);
}

/** CityHash64WithSeed of a text: of its hash and a seed. */
export const cityHash = (data: Uint8Array, seed: number): bigint =>
  mixed(hash(data) - K2, BigInt(seed));

function hash(data: Uint8Array): bigint {
  const size = data.length;
  const at = (start: number, length = 8): bigint => {
    const from = start < 0 ? start + size : start;
    return toInteger(data.subarray(from, from + length));
  };
  const n = BigInt(size);
  if (size > 64) return long(at, size);
  if (size > 32) return medium(at, n);
  if (size > 16) {
    const [a, b, c, d] = [word(at(0) * K1), at(8), at(-8) * K2, at(-16) * K0];
    return mixed(turn(a - b, 43) + turn(c, 30) + d, a + turn(b ^ K3, 20) - c + n);
  }
  if (size > 8) return mixed(at(0), turn(at(-8) + n, size)) ^ at(-8);
  if (size >= 4) return mixed(n + (at(0, 4) << 3n), at(-4, 4));
  if (!size) return K2;
  const low = BigInt(data[0]! + (data[size >> 1]! << 8));
  const high = n + BigInt(data[size - 1]! << 2);
  return word(folded((low * K2) ^ (high * K3)) * K2);
}

type At = (start: number, length?: number) => bigint;

function medium(at: At, n: bigint): bigint {
  const first = at(0) + (n + at(-16)) * K0;
  const v = chained(first, at(8), at(16), at(24));
  const w = chained(at(16) + at(-32), at(-24), at(-16), at(-8));
  const both = folded((v[0] + w[1]) * K2 + (w[0] + v[1]) * K0);
  return word(folded(both * K0 + v[1]) * K2);
}

function chained(a: bigint, second: bigint, third: bigint, last: bigint): [bigint, bigint] {
  const b = turn(a + last, 52);
  const c = turn(a, 37) + turn(a + second, 7);
  const sum = a + second + third;
  return [sum + last, b + turn(sum, 31) + c];
}

/** The end first, then blocks of 64 bytes. */
function long(at: At, size: number): bigint {
  const of32 = (start: number, a: bigint, b: bigint): [bigint, bigint] => {
    const [first, last] = [a + at(start), at(start + 24)];
    const turned = turn(b + first + last, 21);
    const sum = first + at(start + 8) + at(start + 16);
    return [word(sum + last), word(turned + turn(sum, 44) + first)];
  };
  let [x, y, z] = [at(0), at(-16) ^ K1, at(-56) ^ K0];
  let v = of32(size - 64, BigInt(size), y);
  let w = of32(size - 32, BigInt(size) * K1, K0);
  z += folded(v[1]) * K1;
  x = turn(z + x, 39) * K1;
  y = turn(y, 33) * K1;
  for (let start = 0; start < Math.floor((size - 1) / 64) * 64; start += 64) {
    x = word(turn(x + y + v[0] + at(start + 16), 37) * K1) ^ w[1];
    y = word(turn(y + v[1] + at(start + 48), 42) * K1) ^ v[0];
    z = turn(word(z) ^ w[0], 33);
    v = of32(start, v[1] * K1, x + w[0]);
    w = of32(start + 32, z + w[1], y);
    [z, x] = [x, z];
  }
  return mixed(mixed(v[0], w[0]) + folded(y) * K1 + z, mixed(v[1], w[1]) + x);
}
