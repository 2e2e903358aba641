// The four kinds of report, and what is drawn for each: everything a report says is decided here.

import { bit, range } from "./bytes.js";
import { binomial, type Channel } from "./probability.js";
import { bernoulli, type BitSource, coin, either, indexBelow, ONE, uniformBelow } from "./randomness.js";

export type Value = string | number | Uint8Array | readonly Value[];
/** What an app may record: also a set of answers, and a whole number of any size. */
export type Recordable = Value | bigint | ReadonlySet<Value> | readonly Recordable[];

/** Columns that a value touches in a row, ascending; `outside`: the others in an order of its own. */
export type Columns = readonly number[] & { outside?: (o: number) => number };

/** One table of a mechanism. Each report about it is a row and a number. */
export interface Part extends Channel {
  readonly rows: number;
  readonly columns: number;
  /** The row is sent as a block, and a row of the block. */
  readonly blocks: number;
  /** The number of a report is below this. */
  readonly limit: bigint;
  /** Bits of a report that are 1; 0 where any number may be. */
  readonly size: number;
  /** Whether a report names a column: -1 where it names its opposite. */
  vote(number: bigint, column: number): number;
  /** The columns that `value` touches; throws for a value that the mechanism does not know. */
  touches(value: Value, row: number, bits: BitSource): Columns;
  /** The number of a report about a value that touches `columns`. */
  draw(columns: Columns, bits: BitSource): bigint;
  readonly memory?: Memory;
}

/** The two steps of a report that is memoised. Responses are numbers as reports have them. */
export interface Memory {
  /** How many times likelier one value makes a permanent response than another. */
  readonly ratio: Channel["ratio"];
  cell(columns: Columns): bigint;
  permanent(cell: bigint, bits: BitSource): bigint;
  instantaneous(response: bigint, bits: BitSource): bigint;
  /** Where rows and permanent responses are another function of a secret than ours. */
  readonly keyed?: KeyedMemory;
}

export interface KeyedMemory {
  row(secret: Uint8Array): number;
  response(secret: Uint8Array, metric: string, cell: bigint): bigint;
}

export interface Shape {
  rows: number;
  columns: number;
  blocks?: number;
  touches: Part["touches"];
}

type Kind = Pick<Part, "limit" | "vote" | "draw"> & { size?: number };

function part({ blocks = 1, ...shape }: Shape, channel: Channel, kind: Kind): Part {
  const { touched, untouched } = channel;
  if (untouched <= 0n || touched <= untouched || touched >= ONE) {
    throw new RangeError("a report would give a value away, or say nothing");
  }
  return { ...shape, blocks, ...channel, size: 0, ...kind };
}

/** The column that is reported: a touched one with probability `told`, else another. */
export function drawColumn(
  bits: BitSource,
  told: bigint,
  all: number,
  columns: Columns,
): number {
  const drawLie = () => {
    const o = indexBelow(bits, all - columns.length);
    return columns.outside?.(o) ?? columns.reduce((n, t) => n + Number(n >= t), o);
  };
  const drawTruth = () => columns[indexBelow(bits, columns.length)]!;
  return either(bits, coin(bits, told), drawLie, drawTruth);
}

export const isColumn = (number: bigint, column: number): number =>
  Number(number === BigInt(column));

/** A report is one column. */
export const index = (shape: Shape, channel: Channel): Part =>
  part(shape, channel, {
    limit: BigInt(shape.columns),
    vote: isColumn,
    draw: (columns, bits) => BigInt(drawColumn(bits, channel.told, shape.columns, columns)),
  });

export const bitsOf = (columns: Columns): bigint => columns.reduce((n, t) => n | bit(t), 0n);
export const hasBit = (number: bigint, column: number): number =>
  Number((number >> BigInt(column)) & 1n);

/** A report is a set of columns, each in it or not by a draw of its own. */
export const bits = (shape: Shape, channel: Channel): Part =>
  part(shape, channel, {
    limit: bit(shape.columns),
    vote: hasBit,
    draw: (columns, source) =>
      bernoulli(source, channel.untouched, shape.columns, bitsOf(columns), channel.touched),
  });

/** Parity of the 1 bits. */
export const parity = (n: number): number => {
  for (const half of [16, 8, 4, 2, 1]) n ^= n >> half; // as long for any number
  return n & 1;
};

/** A report is a column and the sign of the value's Hadamard row in it. */
export const sign = (shape: Shape, channel: Channel): Part =>
  part(shape, channel, {
    limit: 2n * BigInt(shape.columns),
    vote: (number, column) => isColumn(number >> 1n, column) * (1 - 2 * Number(number & 1n)),
    draw: ([touched], source) => {
      const column = indexBelow(source, shape.columns);
      const truth = parity(column & touched!);
      return 2n * BigInt(column) + BigInt(truth ^ 1 ^ coin(source, channel.told));
    },
  });

/** A report is a set of exactly `size` columns. */
export const subset = (shape: Shape, channel: Channel, size: number): Part =>
  part(shape, channel, {
    limit: bit(shape.columns),
    size,
    vote: hasBit,
    draw: (columns, source) => {
      const [all, own] = [shape.columns, columns.length];
      const some = (ONE * BigInt(size)) / BigInt(all);
      const drawNaming = (named: number) => {
        const inside = own > 1 ? drawSet(source, own, named, 0n) : BigInt(named);
        const others = drawSet(source, all - own, size - named, some);
        return columns.reduce((set, t, i) => {
          const low = set & (bit(t) - 1n);
          return low | (((inside >> BigInt(i)) & 1n) << BigInt(t)) | ((set ^ low) << 1n);
        }, others);
      };
      const isTold = coin(source, channel.told);
      const share = drawShare(source, all, own, size);
      return either(source, isTold, () => drawNaming(0), () => drawNaming(share));
    },
  });

/** A set of `size` of so many columns, each as likely: by coins, then mended one by one. */
function drawSet(source: BitSource, columns: number, size: number, coin: bigint): bigint {
  let set = bernoulli(source, coin, columns);
  let missing = size - range(columns).filter((c) => hasBit(set, c)).length;
  while (missing) {
    const column = bit(indexBelow(source, columns));
    if (Boolean(set & column) !== missing < 0) continue;
    set ^= column;
    missing -= Math.sign(missing);
  }
  return set;
}

/** How many of the own columns are in a set of `size` that has one or more. */
function drawShare(source: BitSource, columns: number, own: number, size: number): number {
  if (own < 2) return 1;
  let rest = uniformBelow(source, binomial(columns, size) - binomial(columns - own, size));
  for (let share = 1; ; share += 1) {
    const sets = binomial(own, share) * binomial(columns - own, size - share);
    if (rest < sets) return share;
    rest -= sets;
  }
}
