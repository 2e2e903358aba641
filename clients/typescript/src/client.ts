// The client that an app embeds: consent, records, uploads, and answers about them. Its rules are the
// numbered sentences of docs/device-protocol.md; no method rejects or throws into the app.

import { unpackBatch } from "./batch.js";
import { toBytes } from "./bytes.js";
import { budget, groupsToAsk, isSealed, lifeLeft, termsOf, unasked } from "./charges.js";
import {
  bareNames,
  dayOf,
  ending,
  isUnsent,
  type Device,
  newDevice,
  type SealedBatch,
  type Storage,
  StorageError,
  type Work,
} from "./device.js";
import type { Mechanisms, Recordable, Value } from "./encoder.js";
import { type Explanation, explanation, inText, rest } from "./explain.js";
import { accountSecret, modeOf } from "./modes.js";
import { type BitSource, systemBits } from "./randomness.js";
import { fetchRegistry, Registry, type RegistryDocument, RegistryError } from "./registry.js";
import {
  drop,
  hiddenPeriods,
  publicPeriods,
  sceneOf,
  seal,
  settle,
  type Surroundings,
  withdraw,
} from "./sealing.js";
import {
  acknowledge,
  Collector,
  type Destination,
  nextBatch,
  NO_DESTINATION,
  noteFailure,
  outlook,
  Unreachable,
} from "./sending.js";
import { type Statement, statementOf } from "./statements.js";
import { copied, ValueError } from "./values.js";

export type Consent = "unknown" | "granted" | "withdrawn";
export type Reason =
  | "consent" | "registry" | "unknown metric" | "value" | "expired" | "cap" | "busy" | "storage"
  | "error";
/** Whether a record took part in its period's draw; whether it was drawn is not said. */
export type Recorded = { recorded: true } | { recorded: false; reason: Reason; details: string };

export interface Uploaded {
  acknowledged: number;
  refused: number;
  waiting: number;
  /** Why no more were sent, or that reports were refused; "" when all went well. */
  why: string;
}

export interface Status {
  consent: Consent;
  storage: string;
  registry: string;
  pooled: number;
  waiting: number;
  acknowledged: number;
  /** Sealed batches that no collector takes on the clock's day, and that wait for another. */
  held: number;
  dropped: number;
  refused: number;
  /** How many records were declined since the consent, by reason. */
  declined: Record<string, number>;
  /** The latest day that the clock showed, where it shows an earlier one now. */
  leap: string | null;
  /** What is new, or allows more than the owner was shown: ask, and call `grant` again. */
  unasked: string[];
  /** Why nothing more is sent now. */
  why: string;
  /** The earliest time at which something can be, where a clock decides it. */
  nextUpload: Date | null;
}

/** A sealed batch, and what its reports say while its bytes are kept. */
export interface Sent extends Pick<SealedBatch, "day" | "reports" | "state"> {
  statements: Statement[];
}

export interface Options {
  /** The registry that the app bundles, or its address, with its SHA-256. */
  registry: RegistryDocument | string;
  /** SHA-256 of the registry at the address, in hexadecimal digits. */
  registrySha256?: string;
  /** Address of a collector, or a destination of your own; null: nothing leaves. */
  collector: string | Destination | null;
  mechanisms: Mechanisms;
  storage: Storage;
  /** Seconds that a sealed batch waits at most before it may leave: an hour; none in development. */
  jitter?: number;
  /** Days for which the bytes of what was sent are kept for `sent`: none. */
  keepSent?: number;
  /** An account's, for devices that share per-value responses; 16 bytes or more. */
  secret?: Uint8Array;
  bits?: BitSource;
  /** Milliseconds since 1970. */
  clock?: () => number;
}

const MOST_BATCHES = 20;
const NOBODY_AGREED = "nobody has agreed yet";
/** Latest time that a clock is believed to show: the year 9000. */
const LAST_SECOND = 221_845_392_000;

export class Client {
  readonly #options: Options;
  readonly #bits: BitSource;
  readonly #clock: () => number;
  readonly #destination: Destination | null;
  #loaded: Registry | undefined;
  /** The last request for the registry. */
  #asked: Promise<RegistryDocument> | undefined;
  #consent: Consent = "unknown";
  #isWithdrawing = false;
  /** How often the owner decided: what comes late of an earlier decision changes nothing. */
  #decisions = 0;
  #isClosed = false;
  #sending: Promise<unknown> = Promise.resolve();
  /** Ends what is on its way. */
  #stop = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Why the last batch was not taken, "" if it was or none was sent. */
  #failure = "";
  /** Why the registry could not be had, the last time. */
  #problem = "";

  /** Throws TypeError or RegistryError for options that cannot be meant. */
  constructor(options: Options) {
    const { registry, registrySha256, collector, secret, jitter = 0, keepSent = 0 } = options;
    if (!options.storage || !options.mechanisms) throw new TypeError("no storage or mechanisms");
    if (typeof registry === "string" && !/^[0-9a-f]{64}$/.test(registrySha256!)) {
      throw new TypeError("registrySha256 must be 64 hex digits");
    }
    if (secret && secret.length < 16) throw new TypeError("a secret has 16 bytes or more");
    if (![jitter, keepSent].every((n) => n === n >>> 0)) {
      throw new TypeError("jitter and keepSent are whole numbers, 0 or more");
    }
    this.#options = { ...options, secret: copied(secret) as Uint8Array };
    this.#bits = options.bits ?? systemBits();
    this.#clock = options.clock ?? (() => Date.now());
    const isSet = collector === null || (collector as Destination)?.send;
    this.#destination = isSet ? (collector as Destination) : new Collector(`${collector}`);
    if (typeof registry !== "string") this.#load(registry);
  }

  /** Note that the owner agrees to the caps of this registry; whether that was written. A
   * withdrawal made meanwhile holds: then it was not. */
  grant(): Promise<boolean> {
    const mine = (this.#decisions += 1);
    return this.#safely(async () => {
      const registry = await this.#registry();
      const isWritten = await this.#transaction((kept) => {
        if (mine !== this.#decisions) return { result: false };
        const device = kept ?? newDevice();
        if (this.#isWithdrawing) withdraw(device); // what waits was recorded before the withdrawal
        device.consent = "granted";
        device.product = registry.product;
        device.terms = termsOf(registry);
        hiddenPeriods(device, registry, this.#now());
        return { device, result: true };
      }, true);
      return isWritten && this.#isDecided(mine, "granted");
    }, () => false);
  }

  /** Note that the owner does not agree, and delete what waits. When this resolves, the client
   * sends nothing more. Charges stay. Resolves to whether that was written. */
  async withdraw(): Promise<boolean> {
    this.#decisions += 1;
    this.#isWithdrawing = true;
    this.#stop.abort();
    this.#stop = new AbortController();
    const isWritten = await this.#safely(() => this.#writeWithdrawal(), () => false);
    await this.#sending;
    return isWritten;
  }

  /** Take one record. The value of a joint metric is a list, one value for each member. What the app
   * makes of a list or of bytes after the call changes nothing. */
  async record(metric: string, value: Recordable): Promise<Recorded> {
    const record = () => this.#record(metric, copied(value)); // before any wait
    const result = await this.#safely(record, declined);
    if (!result.recorded && this.#consent === "granted") {
      const count = ({ declined }: Device) =>
        (declined[result.reason] = (declined[result.reason] ?? 0) + 1);
      await this.#safely(() => this.#change(count, false), () => null);
    }
    return result;
  }

  /** Seal the periods that are over, and send what waits. */
  upload(): Promise<Uploaded> {
    const total = { ...NOTHING_SENT };
    return this.#safely(
      async () => {
        if (this.#isWithdrawing) await this.#writeWithdrawal();
        const work = this.#options.storage.alone(() => this.#upload(total));
        this.#sending = Promise.allSettled([this.#sending, work]);
        return (await work) ?? { ...NOTHING_SENT, why: "another tab uploads" };
      },
      (error) => ({ ...total, why: errorLine(error) }),
    );
  }

  /** Upload after a second, which a short visit lasts, then every so many seconds, until `close`; in
   * development every two. */
  start(every = 3600): void {
    // a timer of more than 2^31 ms is over at once
    const again = (seconds: number) => {
      if (this.#isClosed) return;
      this.#timer = setTimeout(
        () => void this.upload().then(() => again(this.#loaded?.isDevelopment ? 2 : every)),
        1000 * Math.min(seconds > 1 ? seconds : 1, 2e6),
      );
      (this.#timer as { unref?: () => void }).unref?.();
    };
    if (this.#timer === undefined) again(1);
  }

  /** Epsilon that every group could still spend in its current window; none where it is unknown. */
  remaining(): Promise<Record<string, number>> {
    return this.#safely(async () => {
      const registry = await this.#knownRegistry();
      if (typeof registry === "string") return {};
      return this.#read((device) =>
        Object.fromEntries(
          Object.keys(registry.groups).map((group) => [
            group,
            rest(device, registry, group, this.#now()),
          ]),
        ),
      );
    }, () => ({}));
  }

  /** Consent, what is wrong with storage and registry, and counts. */
  async status(): Promise<Status> {
    const registry = await this.#safely<Registry | string>(() => this.#knownRegistry(), errorLine);
    const isRead = typeof registry === "object";
    const empty = {
      ...{ consent: this.#consent, storage: "", registry: isRead ? "" : registry || this.#problem },
      ...{ pooled: 0, waiting: 0, held: 0, acknowledged: 0, dropped: 0, refused: 0, unasked: [] },
      ...{ declined: {}, leap: null },
      ...{ why: NOBODY_AGREED, nextUpload: null },
    };
    return this.#safely(
      () =>
        this.#read((device) => {
          if (!device) return empty;
          const consent = this.#consentOf(device);
          const now = this.#now();
          const clock = Math.floor(this.#clock() / 1000);
          const count = (state: string) =>
            device.batches.filter((b) => b.state === state).length + (device.unlisted[state] ?? 0);
          const longest = isRead ? Math.max(...Object.values(registry.groups).map((g) => g.window)) : 0;
          const begun = isRead ? device.periods.map(({ ends }) => dayOf(ends - longest)) : [];
          const latest = [...begun, ...device.batches.map(({ day }) => day)].sort().at(-1) ?? "";
          return {
            ...{ ...empty, consent, refused: device.refused, declined: { ...device.declined } },
            ...(consent === "granted"
              ? outlook(device, now, clock, !!this.#destination, this.#failure)
              : { why: consent }),
            pooled: device.periods.flatMap(({ pool }) => Object.keys(pool)).length,
            ...{ waiting: count("waiting"), acknowledged: count("acknowledged") },
            ...{ held: count("held"), dropped: count("dropped") },
            leap: latest > dayOf(now) ? latest : null,
            unasked: isRead && device.consent === "granted" ? unasked(device, registry) : [],
          };
        }),
      (error) => ({ ...empty, storage: errorLine(error), why: errorLine(error) }),
    );
  }

  /** What the sealed reports that wait to be sent say. */
  async pending(): Promise<Statement[]> {
    const batches = await this.sent();
    return batches.filter(isUnsent).flatMap(({ statements }) => statements);
  }

  /** Every batch that was sealed, with what its reports say while it waits, or is kept. */
  sent(): Promise<Sent[]> {
    return this.#safely(async () => {
      const isKept = await this.#read((device) => device?.batches.some(({ body }) => body));
      const registry = isKept && (await this.#registry());
      return this.#read((device) =>
        (device?.batches ?? []).map(({ day, reports, state, body }) => ({
          ...{ day, reports, state },
          statements: registry && body ? unpackBatch(body).map((item) => statementOf(registry, item)) : [],
        })),
      );
    }, () => []);
  }

  /** Delete the bytes of what was sent, which `keepSent` kept; whether that was written. */
  forget(): Promise<boolean> {
    return this.#safely(async () => {
      await this.#change((device) => {
        for (const batch of device.batches) if (batch.state === "acknowledged") batch.body = null;
      }, true);
      return true;
    }, () => false);
  }

  /** What the client may send and what that tells, for the owner; null where it is not known. */
  explanation(): Promise<Explanation | null> {
    return this.#safely<Explanation | null>(() => this.#explained(), () => null);
  }

  /** The same as text; where it is not known, why. */
  explain(): Promise<string> {
    return this.#safely(
      async () => inText(await this.#explained()),
      (error) => `What may be sent is not known: ${errorLine(error)}.`,
    );
  }

  /** Stop, after the batch that is on its way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#sending;
    this.#options.storage.close();
  }

  async #record(name: string, value: Value): Promise<Recorded> {
    if (this.#isWithdrawing) await this.#writeWithdrawal();
    const consent = await this.#read((device) => this.#consentOf(device));
    if (consent !== "granted") return refusal("consent", "the owner does not agree");
    // no record asks a second time: requests would tell how many there are, and when
    const registry = await this.#registry(true);
    // a list of one name would be read as the name
    const listed = typeof name === "string" ? name : "";
    const metric = registry.metrics[listed];
    const problem = registry.problems[listed];
    if (problem) return refusal("registry", problem);
    if (!metric) return refusal("unknown metric", "no such metric");
    const cleaned = registry.cleaned(metric, value);
    metric.encoder.check(cleaned);
    const around = this.#surroundings(registry);
    // a hidden record decides nothing about sending
    for (let maySeal = metric.presence === "public"; ; maySeal = false) {
      const done = await this.#transaction<Recorded | null>((device) => {
        if (!device || this.#consentOf(device) !== "granted") {
          return { result: refusal("consent", "the owner does not agree") };
        }
        const kept = settle(device, registry) && { device };
        const refused = (reason: Reason, details: string) =>
          ({ ...kept, result: refusal(reason, details) });
        const now = this.#now();
        if (maySeal && publicPeriods(device, registry, now).length) return { ...kept, result: null };
        if (metric.expires < dayOf(now)) {
          return refused("expired", `it expired on ${metric.expires}`);
        }
        if (!device.terms.metrics.includes(name)) {
          return refused("consent", "the metric is new: ask again");
        }
        const scene = sceneOf(around, device, metric);
        const mode = modeOf(metric);
        const epoch = mode.current?.(scene, now);
        if (epoch && !epoch.response) {
          return refused("cap", "this epoch sends nothing more after the withdrawal");
        }
        if (!epoch?.charged && metric.cost > lifeLeft(device, registry, metric.group)) {
          return groupsToAsk(device, registry).includes(metric.group)
            ? refused("consent", "the group allows more now: ask again")
            : refused("cap", `group ${metric.group} has spent its lifetime`);
        }
        const end = ending(now, scene.window);
        if (isSealed(device, metric.group, end)) {
          return refused("cap", "this window was sealed before the clock went back");
        }
        if (metric.epoch && !epoch && budget(device, registry, metric.group, end).window < 0n) {
          return refused("cap", "this window has nothing left to set aside for an epoch");
        }
        mode.enter(scene, cleaned, now);
        return { device, result: { recorded: true } };
      }, false);
      if (done) return done;
      await this.#seal(registry, false);
    }
  }

  /** Seal the periods that are over; of hidden groups only in an upload. */
  #seal(registry: Registry, isUpload: boolean): Promise<null> {
    return this.#transaction((device) => {
      if (!device || this.#consentOf(device) !== "granted") return { result: null };
      settle(device, registry);
      const now = this.#now();
      const due = publicPeriods(device, registry, now);
      if (isUpload) due.push(...hiddenPeriods(device, registry, now));
      if (due.length) {
        seal(device, this.#surroundings(registry), due, now);
      }
      drop(device, now, this.#options.keepSent ?? 0);
      return { device, result: null };
    }, true);
  }

  async #upload(total: Uploaded): Promise<Uploaded> {
    const { signal } = this.#stop; // of before any wait: a later one is not aborted by a withdrawal
    const consent = await this.#read((device) => this.#consentOf(device));
    if (consent !== "granted") return { ...total, why: "consent" };
    const registry = await this.#registry(false, signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
    if (registry) await this.#seal(registry, true);
    for (let sent = 0; sent < MOST_BATCHES; sent += 1) {
      const clock = Math.floor(this.#clock() / 1000);
      const next = await this.#read((device) => {
        if (!device || this.#isClosed || this.#consentOf(device) !== "granted") return "consent";
        total.waiting = device.batches.filter(({ state }) => state === "waiting").length;
        return nextBatch(device, this.#now(), clock, this.#bits);
      });
      if (signal.aborted) return { ...total, waiting: 0, why: "consent" };
      if (typeof next === "string") return { ...total, why: next || total.why };
      if (!this.#destination) return { ...total, why: NO_DESTINATION };
      try {
        const refused = await this.#destination.send(next.body!, signal);
        if (refused !== refused >>> 0) throw new TypeError();
        const keeps = !!this.#options.keepSent;
        await this.#change((device) => acknowledge(device, next.id, refused, keeps), true);
        this.#failure = "";
        total.acknowledged += 1;
        total.refused += refused;
        if (refused) total.why = "reports were refused: is the collector's registry this one?";
        total.waiting -= 1;
      } catch (error) {
        if (error instanceof StorageError) throw error;
        if (signal.aborted) return { ...total, waiting: 0, why: "consent" };
        this.#failure = errorLine(error);
        await this.#change((device) => noteFailure(device, error, clock, this.#bits), false);
        return { ...total, why: errorLine(error) };
      }
    }
    return total.waiting ? { ...total, why: "enough for one call" } : total;
  }

  async #writeWithdrawal(): Promise<boolean> {
    const mine = this.#decisions;
    await this.#transaction((kept) => {
      if (!this.#isWithdrawing) return { result: null }; // another call wrote the latest decision
      const device = kept ?? newDevice();
      withdraw(device);
      return { device, result: null };
    }, true);
    this.#isDecided(mine, "withdrawn");
    return true;
  }

  /** Note that a decision was written, unless another came since; whether none did. */
  #isDecided(decision: number, consent: Consent): boolean {
    if (decision !== this.#decisions) return false;
    this.#isWithdrawing = false;
    this.#consent = consent;
    return true;
  }

  async #registry(isRecord?: boolean, stop?: AbortSignal): Promise<Registry> {
    if (this.#loaded) return this.#loaded;
    const { registry, registrySha256 } = this.#options;
    try {
      if (!isRecord || !this.#asked) {
        this.#asked = fetchRegistry(registry as string, registrySha256!, stop);
      }
      return this.#load(await this.#asked);
    } catch (error) {
      if (!stop?.aborted) this.#problem = errorLine(error);
      throw error;
    }
  }

  #load(document: RegistryDocument): Registry {
    const registry = new Registry(structuredClone(document), this.#options.mechanisms);
    if (registry.isDevelopment && this.#destination && !this.#destination.isLocal) {
      throw new RegistryError("development = true sends to this machine only");
    }
    return (this.#loaded = registry);
  }

  async #explained(): Promise<Explanation> {
    const registry = await this.#registry();
    return this.#read((device) => {
      const now = this.#now();
      return explanation(registry, device, this.#consentOf(device), now);
    });
  }

  /** The registry, without a request before the owner agreed. */
  async #knownRegistry(): Promise<Registry | string> {
    const isKnown =
      this.#loaded || (await this.#read((device) => this.#consentOf(device))) === "granted";
    return isKnown ? this.#registry() : "";
  }

  #surroundings(registry: Registry): Surroundings {
    const { secret, jitter = 3600 } = this.#options;
    return {
      ...{ registry, jitter: registry.isDevelopment ? 0 : jitter, bits: this.#bits },
      secret: (device) =>
        secret
          ? accountSecret(secret, registry.product)
          : (device.secret ??= toBytes(this.#bits.draw(256), 32)),
    };
  }

  /** Seconds since 1970. */
  #now(): number {
    return Math.max(Math.min(Math.floor(this.#clock() / 1000), LAST_SECOND), 0);
  }

  #consentOf(device: Device | null): Consent {
    return (this.#consent = this.#isWithdrawing ? "withdrawn" : (device?.consent ?? "unknown"));
  }

  #transaction<T>(work: Work<T>, durable: boolean): Promise<T> {
    if (this.#isClosed) return Promise.reject(new StorageError("the client is closed"));
    return this.#stored(work, durable);
  }

  /** Run `work` on the document, unless it is of another product. */
  #stored<T>(work: Work<T>, durable: boolean): Promise<T> {
    return this.#options.storage.transaction((device) => {
      const kept = device?.product;
      const own = this.#loaded?.product;
      if (kept && own && kept !== own) {
        throw new StorageError(`the storage is of product ${kept}, not ${own}`);
      }
      if (device) bareNames(device); // a storage gives ordinary objects
      return work(device);
    }, durable);
  }

  #read<T>(work: (device: Device | null) => T): Promise<T> {
    return this.#transaction((device) => ({ result: work(device) }), false);
  }

  #change(work: (device: Device) => void, durable: boolean): Promise<null> {
    return this.#stored((device) => {
      if (!device) return { result: null };
      work(device);
      return { device, result: null };
    }, durable);
  }

  async #safely<T>(work: () => Promise<T>, otherwise: (error: unknown) => T): Promise<T> {
    try {
      return await work();
    } catch (error) {
      return otherwise(error);
    }
  }
}

const NOTHING_SENT: Uploaded = { acknowledged: 0, refused: 0, waiting: 0, why: "" };

const refusal = (reason: Reason, details: string): Recorded => ({
  ...{ recorded: false, reason, details },
});

/** The text of an error of ours; of any other only its type, which shows no value. */
const errorLine = (error: unknown): string => {
  const isOurs = [StorageError, Unreachable, RegistryError, ValueError].some(
    (type) => error instanceof type,
  );
  return isOurs ? (error as Error).message : ((error as Error)?.name ?? "error");
};

const declined = (error: unknown): Recorded => {
  if (error instanceof StorageError) {
    return refusal(error.isBusy ? "busy" : "storage", error.message);
  }
  if (error instanceof ValueError) return refusal("value", error.message);
  return refusal(error instanceof RegistryError ? "registry" : "error", errorLine(error));
};
