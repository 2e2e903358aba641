// Random bits (docs/wire.md, section 5), and the two draws that decide every report.

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { shake256 } from "@noble/hashes/sha3.js";
import { bit, concat, digits, range, toBytes, toInteger, utf8 } from "./bytes.js";

/** 2**64: a probability is a whole number of its parts. */
export const ONE = 1n << 64n;
const BLOCK_BYTES = 4096;

export interface BitSource {
  /** A whole number of `bits` random bits; every draw begins at a whole byte. */
  draw(bits: number): bigint;
  /** Whether what is drawn need not be the same again: then more is drawn than is used, so that the
   * time of a report does not tell which was. */
  readonly isSystem?: boolean;
  /** The source for the choice among the answers of one set, where a secret decides it. */
  about?(set: Uint8Array): BitSource;
}

/** The source that reads blocks one after the other and overwrites what it has read. */
export function bitsFrom(nextBlock: () => Uint8Array): BitSource {
  let block = new Uint8Array(0);
  const take = (length: number): Uint8Array => {
    const taken = new Uint8Array(length);
    for (let filled = 0; filled < length; ) {
      if (block.length === 0) block = nextBlock() as Uint8Array<ArrayBuffer>;
      const part = block.subarray(0, length - filled);
      taken.set(part, filled);
      part.fill(0);
      block = block.subarray(part.length);
      filled += part.length;
    }
    return taken;
  };
  return { draw: (bits) => BigInt.asUintN(bits, toInteger(take(Math.ceil(bits / 8)))) };
}

/** The random bits of a device: the platform's cryptographic generator. */
export const systemBits = (): BitSource => ({
  ...bitsFrom(() => globalThis.crypto.getRandomValues(new Uint8Array(BLOCK_BYTES))),
  isSystem: true,
});

const stream = (label: string, blockBytes: number, seed: Uint8Array): BitSource => {
  let blocks = 0;
  return bitsFrom(() =>
    shake256(concat(utf8(label), toBytes(blocks++, 8), seed), { dkLen: blockBytes }),
  );
};

/** Known to whoever knows the seed: for vectors and tests only. */
export const seededBits = (seed: Uint8Array): BitSource =>
  stream("ldp seeded bits v1", BLOCK_BYTES, seed);

/** The same bits for the same secret and message: memoised noise. */
export const keyedBits = (secret: Uint8Array, ...parts: Uint8Array[]): BitSource =>
  stream("ldp keyed bits v1", 256, digest(secret, ...parts));

/** HMAC-SHA256. */
export const digest = (secret: Uint8Array, ...parts: Uint8Array[]): Uint8Array =>
  hmac(sha256, secret, concat(...parts));

/** A whole number below `bound`, each as likely. */
export function uniformBelow(bits: BitSource, bound: bigint): bigint {
  const length = digits(bound - 1n);
  for (;;) {
    const n = bits.draw(length);
    if (n < bound) return n;
  }
}

export const indexBelow = (bits: BitSource, bound: number): number =>
  Number(uniformBelow(bits, BigInt(bound)));

/** Most lanes of which the system's source is asked for whole numbers. */
const FEW_LANES = 64;
const HALF = 2 ** 32;

/** 1 with probability `threshold / 2**64`, else 0. */
export function coin(bits: BitSource, threshold: bigint): number {
  if (!bits.isSystem) return Number(bernoulli(bits, threshold, 1));
  const [high, low] = [Number(bits.draw(32)), Number(bits.draw(32))];
  // subtracted half by half: neither a comparison nor a jump, whose time could depend on the bits
  const isLowLess = 1 ^ ((low - Number(threshold & 0xffffffffn) + HALF) / HALF);
  return 1 ^ ((high - isLowLess - Number(threshold >> 32n) + HALF) / HALF);
}

/** The lie or the truth; of the system's source both are drawn, whichever is told. */
export const either = <T>(bits: BitSource, isTold: number, ...draws: [() => T, () => T]): T =>
  bits.isSystem ? draws.map((draw) => draw())[isTold]! : draws[isTold]!();

/**
 * `lanes` independent bits: a lane is 1 with probability `high / 2**64` where its bit of `chosen`
 * is 1, else with `low / 2**64`. Each compares 64 random bits with its threshold from the top bit
 * down, and is decided at the first difference; of the system's source few are compared whole.
 */
export function bernoulli(
  bits: BitSource,
  low: bigint,
  lanes: number,
  chosen = 0n,
  high = 0n,
): bigint {
  if (bits.isSystem && lanes <= FEW_LANES) {
    const isChosen = (lane: number) => Number((chosen >> BigInt(lane)) & 1n);
    return range(lanes).reduce(
      (n, lane) => n | (BigInt(coin(bits, [low, high][isChosen(lane)]!)) << BigInt(lane)),
      0n,
    );
  }
  const every = bit(lanes) - 1n;
  const pick = (isLow: boolean, isHigh: boolean) =>
    (isLow ? every & ~chosen : 0n) | (isHigh ? chosen : 0n);
  const hasBit = (threshold: bigint, place: number) => ((threshold >> BigInt(place)) & 1n) === 1n;
  let below = pick(low === ONE, high === ONE);
  let undecided = every & ~below;
  for (let at = 63; at >= 0 && undecided && (low | high) & (bit(at + 1) - 1n); at -= 1) {
    const word = bits.draw(lanes);
    const ones = pick(hasBit(low, at), hasBit(high, at));
    below |= undecided & ones & ~word;
    undecided &= ~(word ^ ones);
  }
  return below;
}
