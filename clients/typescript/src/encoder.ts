// The encoder: the only code that turns a value into the bytes of a report (sections 6 and 7).

import { concat, fromHex, range, sizeBelow, toBytes, toHex, toInteger } from "./bytes.js";
import { fingerprint, type Parameters } from "./fingerprint.js";
import type { Part, Value } from "./kinds.js";
import type { Fraction } from "./probability.js";
import { type BitSource, indexBelow, systemBits } from "./randomness.js";

export { fingerprint, type Parameters } from "./fingerprint.js";
export type { Memory, Part, Recordable, Value } from "./kinds.js";
export { type BitSource, seededBits, systemBits } from "./randomness.js";

/** A mechanism of the specification: the number of its reports, and their parts. */
export interface Mechanism {
  readonly name: string;
  readonly id: number;
  parts(parameters: any, mechanisms: Mechanisms): Part[];
}
export type Mechanisms = readonly Mechanism[];

/** What a report says of one part. */
export interface Content {
  readonly row: number;
  readonly number: bigint;
}

const NOTHING: BitSource = { draw: () => 0n };

/** The mechanism of that name; throws where the app did not import it. */
export function mechanismOf(parameters: Parameters, mechanisms: Mechanisms): Mechanism {
  const mechanism = mechanisms.find(({ name }) => name === parameters.mechanism);
  if (!mechanism) throw new RangeError(`mechanism ${parameters.mechanism} is not imported`);
  return mechanism;
}

/** Encoder of one mechanism. `mechanisms`: those that the app imports. */
export class Encoder {
  readonly parts: readonly Part[];
  readonly fingerprint: string;
  /** How many times likelier one value makes a report than another, at most. */
  readonly ratio: Fraction;
  /** The same of all reports about one value; undefined where nothing can be memoised. */
  readonly lifetimeRatio: Fraction | undefined;
  private readonly header: Uint8Array;
  private readonly sizes: number[];

  constructor(
    readonly parameters: Parameters,
    mechanisms: Mechanisms,
  ) {
    const mechanism = mechanismOf(parameters, mechanisms);
    this.parts = mechanism.parts(parameters, mechanisms);
    this.fingerprint = fingerprint(parameters);
    this.header = concat(Uint8Array.of(1, mechanism.id), fromHex(this.fingerprint));
    this.sizes = this.parts.flatMap(limits).map(sizeBelow);
    this.ratio = this.parts.reduce<Fraction>(
      ([above, below], { ratio }) => [above * ratio[0], below * ratio[1]],
      [1n, 1n],
    );
    this.lifetimeRatio = this.parts[0]!.memory?.ratio;
  }

  /** Throw ValueError for a value that the mechanism does not know. */
  check(value: Value): void {
    for (const part of this.parts) part.touches(value, 0, NOTHING);
  }

  /** Draw a report about a value, with fresh noise; throws ValueError. */
  encode(value: Value, bits: BitSource = systemBits()): Uint8Array {
    this.check(value);
    return this.pack(
      this.parts.map((part) => {
        const row = indexBelow(bits, part.rows);
        return { row, number: part.draw(part.touches(value, row, bits), bits) };
      }),
    );
  }

  /** The bytes of a report. */
  pack(contents: readonly Content[]): Uint8Array {
    const numbers = contents.flatMap(({ row, number }, i) => {
      const inBlock = this.parts[i]!.rows / this.parts[i]!.blocks;
      return [BigInt(Math.floor(row / inBlock)), BigInt(row % inBlock), number];
    });
    return concat(this.header, ...numbers.map((n, i) => toBytes(n, this.sizes[i]!)));
  }

  /** What a report says, part by part; null for bytes that are no report of this mechanism. */
  unpack(report: Uint8Array): Content[] | null {
    const ends = this.sizes.reduce((list, size) => [...list, list.at(-1)! + size], [10]);
    const isOurs = toHex(report.subarray(0, 10)) === toHex(this.header);
    if (report.length !== ends.at(-1) || !isOurs) return null;
    const numbers = range(this.sizes.length).map((i) =>
      toInteger(report.subarray(ends[i], ends[i + 1])),
    );
    const bounds = this.parts.flatMap(limits);
    if (numbers.some((n, i) => n >= bounds[i]!)) return null;
    const contents = this.parts.map((_, i) => ({
      row: Number(numbers[3 * i]! * bounds[3 * i + 1]! + numbers[3 * i + 1]!),
      number: numbers[3 * i + 2]!,
    }));
    const sizeOf = (n: bigint) => n.toString(2).replaceAll("0", "").length;
    const isWhole = this.parts.every(({ size }, i) => !size || sizeOf(contents[i]!.number) === size);
    return isWhole ? contents : null;
  }
}

const limits = ({ blocks, rows, limit }: Part): bigint[] => [
  BigInt(blocks),
  BigInt(rows / blocks),
  limit,
];
