// Sealed batches (docs/wire.md, section 11): what a device sends. Nothing in it is about the device.

import { concat, fromHex, toBytes, toHex, toInteger, utf8 } from "./bytes.js";

export const MEDIA_TYPE = "application/vnd.ldp.batch";
export const ID_HEADER = "Ldp-Batch";
const LEAST_BYTES = 1024;
const MOST_BYTES = 1 << 20;
const MOST_ITEMS = 500;
const HEAD_BYTES = 32;
const ITEM_BYTES = 9;

export interface Item {
  readonly metric: string;
  readonly version: number;
  readonly report: Uint8Array;
}

const bytesOf = ({ metric, version, report }: Item): Uint8Array => {
  const name = utf8(metric);
  const sizes = [toBytes(name.length, 1), toBytes(version, 4), toBytes(report.length, 4)];
  return concat(...sizes, name, report);
};

/** The bytes of a batch. `id`: 32 hexadecimal digits; `day`: days since 1970. */
export function packBatch(id: string, day: number, items: readonly Item[]): Uint8Array {
  const head = concat(utf8("ldp-batch"), Uint8Array.of(1), fromHex(id), toBytes(day, 4));
  const body = concat(head, toBytes(items.length, 2), ...items.map(bytesOf));
  let size = LEAST_BYTES;
  while (size < body.length) size *= 2;
  return concat(body, new Uint8Array(size - body.length));
}

/** The id of a batch that `packBatch` wrote: 32 hexadecimal digits. */
export const batchId = (batch: Uint8Array): string => toHex(batch.subarray(10, 26));

/** The items of a batch that `packBatch` wrote. */
export function unpackBatch(batch: Uint8Array): Item[] {
  const number = (from: number, length: number) =>
    Number(toInteger(batch.subarray(from, from + length)));
  const items: Item[] = [];
  let at = HEAD_BYTES;
  for (let left = number(30, 2); left; left -= 1) {
    const start = at + ITEM_BYTES;
    const middle = start + number(at, 1);
    const metric = new TextDecoder().decode(batch.subarray(start, middle));
    const version = number(at + 1, 4);
    at = middle + number(at + 5, 4);
    items.push({ metric, version, report: batch.slice(middle, at) });
  }
  return items;
}

/** The items of as few batches as possible, in order. */
export function splitIntoBatches(items: readonly Item[]): Item[][] {
  const batches: Item[][] = [];
  let size = MOST_BYTES;
  for (const item of items) {
    const length = bytesOf(item).length;
    if (size + length > MOST_BYTES || batches.at(-1)!.length === MOST_ITEMS) {
      batches.push([]);
      size = HEAD_BYTES;
    }
    batches.at(-1)!.push(item);
    size += length;
  }
  return batches;
}
