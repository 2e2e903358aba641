// The permanent response of google/rappor's C++ client: HMAC-SHA256 up to 32 bits, HMAC_DRBG
// (SP 800-90A, 10.1.2) beyond. A byte decides a bit: its low bit is the coin.

import { bit, concat, toBytes, toInteger, utf8 } from "../bytes.js";
import { hasBit, type KeyedMemory } from "../kinds.js";
import { digest } from "../randomness.js";

function generated(seed: Uint8Array, size: number): Uint8Array {
  let key: Uint8Array = new Uint8Array(32);
  let value: Uint8Array = new Uint8Array(32).fill(1);
  for (const step of [0, 1]) {
    key = digest(key, value, Uint8Array.of(step), seed);
    value = digest(key, value);
  }
  let stream: Uint8Array = new Uint8Array(0);
  while (stream.length < size) {
    value = digest(key, value);
    stream = concat(stream, value);
  }
  return stream.subarray(0, size);
}

export function cppMemory(p: { bits: number; cohorts: number; f: number }): KeyedMemory {
  const isShort = p.bits <= 32;
  const stream = (secret: Uint8Array, text: Uint8Array, size: number) =>
    isShort ? digest(secret, text).subarray(0, size) : generated(concat(secret, text), size);
  return {
    row: (secret) =>
      Number(toInteger(stream(secret, new Uint8Array(0), 4)) % BigInt(p.cohorts)),
    response(secret, metric, cell) {
      const filter = toBytes(cell, isShort ? 4 : p.bits / 8).slice().reverse();
      const about = concat(Uint8Array.of(1), utf8(metric), filter);
      return stream(secret, about, p.bits).reduce((response, byte, i) => {
        const kept = byte >> 1 < 128 * p.f ? byte & 1 : hasBit(cell, i);
        return response | (kept ? bit(i) : 0n);
      }, 0n);
    },
  };
}
