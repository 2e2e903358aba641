// What the tests of the client share: a registry, a clock, a destination that remembers.

import { readFileSync } from "node:fs";
import { unpackBatch } from "../dist/batch.js";
import { Client, memoryStorage } from "../dist/index.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

export const DAY = 86_400;
const TEXT = readFileSync(new URL("metrics.json", import.meta.url), "utf8");
export const registry = () => JSON.parse(TEXT);

/** The registry without its hidden metrics, which send something every day. */
export function publicRegistry() {
  const { metrics, ...rest } = registry();
  const isPublic = ([, { presence }]) => presence === "public";
  return { ...rest, metrics: Object.fromEntries(Object.entries(metrics).filter(isPublic)) };
}

/** The public registry, with caps for life that are never reached. */
export function lastingRegistry() {
  const { groups, product, ...rest } = publicRegistry();
  const lasting = Object.entries(groups).map(([name, caps]) =>
    [name, { ...caps, lifetime_epsilon: 1e6 }]);
  return { ...rest, product: { name: product.name }, groups: Object.fromEntries(lasting) };
}

/** A destination that takes batches, or rejects while `error` is set. */
export class Inbox {
  batches = [];
  error = null;
  tries = [];

  async send(body) {
    this.tries.push(body.slice());
    if (this.error) throw this.error;
    this.batches.push(body.slice());
    return 0;
  }

  get items() {
    return this.batches.flatMap(unpackBatch);
  }
}

/** The charges of a document, in no order. */
export const chargesOf = ({ accounts }) =>
  accounts.flatMap(({ group, metric, price, recent }) =>
    Array.from({ length: recent.length / 4 }, (_, i) => {
      const [at, times] = recent.slice(4 * i);
      return { group, metric, price, times, at };
    }),
  );

/** A device with its own clock, which begins at noon of 2026-11-21. */
export class Device {
  constructor(options = {}) {
    this.now = Date.UTC(2026, 10, 21, 12) / 1000;
    this.inbox = new Inbox();
    this.options = {
      ...{ registry: registry(), mechanisms: everyMechanism, storage: memoryStorage(), jitter: 0 },
      ...{ collector: this.inbox, clock: () => 1000 * this.now },
      ...options,
    };
    this.client = new Client(this.options);
  }

  /** Another client of the same device, as after a restart. */
  restart(options = {}) {
    this.client = new Client({ ...this.options, ...options });
    return this.client;
  }

  get document() {
    return this.options.storage.device;
  }

  sleep(days) {
    this.now += days * DAY;
  }

  /** The charges of windows that are not forgotten. */
  get charged() {
    return chargesOf(this.document);
  }

  /** What a group was charged for, by end of period. */
  charges(group) {
    const spent = {};
    for (const { group: charged, at, price, times } of this.charged) {
      if (charged === group) spent[at] = (spent[at] ?? 0) + price * times;
    }
    return spent;
  }
}
