// What a device keeps: one document, read and written whole in one transaction. No value, no order
// and no time finer than the beginning of a period is in it; reports are randomised before.

import { bare } from "./bytes.js";
import type { Caps, Metric } from "./registry.js";

/** What reports were recorded under: they are never sent under anything else. */
export interface Key {
  readonly ends: number;
  readonly metric: string;
  readonly version: number;
  readonly meaning: string;
}

export interface Pooled {
  report: Uint8Array;
  /** Of a response that is memoised per value: a keyed digest of its filter. */
  tag?: string;
}

/** One metric's draw of one period: how many records took part, and the winners by slot. */
export interface Period extends Key {
  records: number;
  pool: Record<number, Pooled>;
}

/** The response of an epoch; null after a withdrawal: the epoch sends nothing more. */
export interface Epoch extends Key {
  records: number;
  charged: boolean;
  response: { row: number; number: bigint } | null;
  /** End of the period of the record that it is about; 0 where that is not known. */
  source: number;
}

/** Beginning and end of a span of time, in seconds since 1970. */
export type Span = readonly [number, number];

/** What a metric was charged in a group at a price. */
export interface Account {
  group: string;
  metric: string;
  price: number;
  times: number;
  /** Latest end of what was forgotten but for the sum. */
  forgotten: number;
  /** Charges that are kept, four numbers each: see charges.ts. */
  recent: Float64Array;
}

/** A charge of documents of before. */
interface OldCharge extends Omit<Account, "forgotten" | "recent"> {
  at: number;
}

export interface SealedBatch {
  id: string;
  /** Day of sealing, and the last on which a collector takes it. */
  day: string;
  lastDay: string;
  notBefore: number;
  reports: Record<string, number>;
  body: Uint8Array | null;
  /** Held: it would wait, but no collector takes it on the clock's day. */
  state: "waiting" | "held" | "acknowledged" | "dropped" | "withdrawn";
}

/** What the owner was shown with the consent. */
export interface Terms {
  lifetime: number;
  groups: Record<string, Caps>;
  metrics: string[];
}

export interface Device {
  format: 1;
  /** The product that the owner agreed to; "" before. */
  product: string;
  consent: "granted" | "withdrawn";
  terms: Terms;
  /** Group and window of every metric. */
  layout: Record<string, string>;
  periods: Period[];
  epochs: Epoch[];
  tags: string[];
  accounts: Account[];
  /** Ends of the last sealed periods of each group, in order. */
  sealed: Record<string, Float64Array>;
  batches: SealedBatch[];
  /** How many batches of each state are not listed any more. */
  unlisted: Record<string, number>;
  /** End of the last sealed period of groups with hidden presence. */
  calendars: Record<string, number>;
  secret: Uint8Array | null;
  refused: number;
  /** How many records were declined, by reason, since the consent. */
  declined: Record<string, number>;
  failures: number;
  nextTry: number;
}

export const newDevice = (): Device => ({
  ...{ format: 1, product: "", consent: "withdrawn", secret: null },
  ...{ refused: 0, failures: 0, nextTry: 0 },
  ...{ periods: [], epochs: [], tags: [], accounts: [], batches: [] },
  ...{ layout: bare(), calendars: bare(), unlisted: bare(), sealed: bare() },
  declined: bare(),
  terms: { lifetime: 0, groups: bare(), metrics: [] },
});

/** Let records by name have the names that were put, and no others; complete older documents. */
export function bareNames(device: Device): void {
  if (!device.accounts) completeOld(device as Device & { charges?: OldCharge[] });
  device.unlisted = bare(device.unlisted);
  device.sealed = bare(device.sealed);
  device.declined = bare(device.declined);
  device.layout = bare(device.layout);
  device.calendars = bare(device.calendars);
  device.terms.groups = bare(device.terms.groups);
}

/** Complete a document whose charges were a list, each of a window of 31 days at most; it does not say
 * of which window the response of an epoch is that was not charged. */
function completeOld(device: Device & { charges?: OldCharge[] }): void {
  Object.assign(device, { accounts: [], sealed: bare(), unlisted: bare() });
  for (const { at, times, ...key } of device.charges ?? []) {
    const recent = Float64Array.of(at, times, at - 31 * DAY, at);
    device.accounts.push({ ...key, times, forgotten: 0, recent });
    const ends = new Set([...(device.sealed[key.group] ?? []), at]);
    device.sealed[key.group] = Float64Array.from(ends).sort();
  }
  delete device.charges;
  const open = device.epochs.filter(({ charged }) => !charged).map(named);
  device.epochs = device.epochs.filter(({ charged }) => charged);
  device.periods = device.periods.filter((period) => !open.includes(named(period)));
}

/** Error: the storage cannot be used now. */
export class StorageError extends Error {
  constructor(
    message: string,
    readonly isBusy = false,
  ) {
    super(message);
  }
}

/** Where a device's document is kept. */
export interface Storage {
  /**
   * Run `work` on the document, alone, and write what it returns as `device`: all or nothing. Work
   * gets null where nothing was ever written, and may run again. With `durable` it is on the disk
   * when the promise resolves. Rejects with StorageError.
   */
  transaction<T>(work: Work<T>, durable: boolean): Promise<T>;
  /** Run `work` unless another tab or process does; resolve to null then. */
  alone<T>(work: () => Promise<T>): Promise<T | null>;
  close(): void;
}

export type Work<T> = (device: Device | null) => { device?: Device; result: T };

/** The document, if it is one of this format; throws StorageError. */
export function checkedDevice(content: unknown): Device | null {
  if (content === undefined || content === null) return null;
  if ((content as Device).format !== 1) {
    throw new StorageError("the storage is foreign, damaged or of a newer version");
  }
  return content as Device;
}

export const isOf =
  ({ name, version, meaning }: Metric, ends?: number) =>
  (key: Key): boolean =>
    key.metric === name &&
    key.version === version &&
    key.meaning === meaning &&
    (ends === undefined || key.ends === ends);

/** An order that says nothing about when something was recorded. */
export const byKey = (a: Key, b: Key): number =>
  a.ends - b.ends || (named(a) < named(b) ? -1 : 1);
const named = ({ metric, version, meaning }: Key): string => `${metric} ${version} ${meaning}`;

/** Whether a batch has not left, and may. */
export const isUnsent = ({ state }: Pick<SealedBatch, "state">): boolean => state === "waiting" || state === "held";

export const DAY = 86_400;
export const dayOf = (seconds: number): string => new Date(1000 * seconds).toISOString().slice(0, 10);
/** The end of the period or epoch of that length which holds `now`; each begins at a multiple. */
export const ending = (now: number, length: number): number => now - (now % length) + length;
