// Bytes, whole numbers and text. All numbers in reports are unsigned and little-endian.

const ENCODER = new TextEncoder();

export const range = (length: number): number[] => Array.from({ length }, (_, i) => i);

/** The entries of a record, and nothing else: not even "constructor" is in it unless it was put. */
export const bare = <T>(record: Readonly<Record<string, T>> = {}): Record<string, T> =>
  Object.assign(Object.create(null), record);

/** One bit at place `i`. */
export const bit = (i: number): bigint => 1n << BigInt(i);

/** The number of binary digits of `n`; 0 has none. */
export const digits = (n: bigint): number => (n > 0n ? n.toString(2).length : 0);

/** The number of bytes that hold every whole number below `limit`. */
export const sizeBelow = (limit: bigint): number => Math.ceil(digits(limit - 1n) / 8);

export function concat(...parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** UTF-8 of a text; throws for a lone surrogate, which has none. */
export function utf8(text: string): Uint8Array {
  if (/\p{Cs}/u.test(text)) throw new RangeError("a text has a lone surrogate");
  return ENCODER.encode(text);
}

export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export const fromHex = (text: string): Uint8Array =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export function toBytes(n: bigint | number, length: number): Uint8Array {
  const bytes = new Uint8Array(8 * Math.ceil(length / 8));
  const view = new DataView(bytes.buffer);
  for (let at = 0, rest = BigInt(n); at < bytes.length; at += 8, rest >>= 64n) {
    view.setBigUint64(at, BigInt.asUintN(64, rest), true);
  }
  return bytes.subarray(0, length);
}

export function toInteger(bytes: Uint8Array): bigint {
  let n = 0n;
  for (let end = bytes.length, at = end - (end % 6); at >= 0; end = at, at -= 6) {
    let part = 0; // 6 bytes are a whole number that a double holds
    for (let i = end - 1; i >= at; i -= 1) part = part * 256 + bytes[i]!;
    n = (n << 48n) | BigInt(part);
  }
  return n;
}

/** The 64-bit words of whole blocks of 8 bytes. */
export function words(bytes: Uint8Array): bigint[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return range(bytes.length / 8).map((i) => view.getBigUint64(8 * i, true));
}

/** Texts, each after its length as 4 bytes. */
export const message = (...texts: string[]): Uint8Array =>
  concat(...texts.map(utf8).flatMap((bytes) => [toBytes(bytes.length, 4), bytes]));
