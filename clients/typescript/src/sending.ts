// Sending: one sealed batch at a time to a collector, with longer waits after every failure.

import { ID_HEADER, MEDIA_TYPE, batchId } from "./batch.js";
import type { Device, SealedBatch } from "./device.js";
import { type BitSource, indexBelow } from "./randomness.js";

/** Aborted after 20 seconds, or with `stop`: not in older browsers, which have no `any`. */
export function limited(stop?: AbortSignal): AbortSignal {
  const late = AbortSignal.timeout(20_000);
  return (stop && AbortSignal.any?.([stop, late])) ?? late;
}

/** Bounds of the waits after failures, in seconds; the bound doubles with every failure. */
const FIRST_WAIT = 60;
const LONGEST_WAIT = 6 * 3600;

/** Where sealed batches go; it must accept the same bytes again. */
export interface Destination {
  /** Whether it is on this machine: a registry for development may send there. */
  readonly isLocal?: boolean;
  /** Resolves to how many reports of the batch will never be counted, once it is kept for good:
   * 0 for none. Rejects where it is not taken now. `signal`: aborted when the owner withdraws. */
  send(body: Uint8Array, signal?: AbortSignal): Promise<number>;
}

/** Error: the destination did not take the batch, whose bytes are sent again later. */
export class Unreachable extends Error {
  constructor(
    message: string,
    readonly retryAfter = 0,
  ) {
    super(message);
  }
}

/** A collector that is sent batches with `POST url/v1/reports`, which state their ids in the header
 * `Ldp-Batch`; 202 acknowledges, after any other status the same bytes are sent again later. */
export class Collector implements Destination {
  readonly isLocal: boolean;
  private readonly address: string;

  /** `url`: https, or http on this machine. Throws TypeError. */
  constructor(url: string) {
    const { protocol, hostname, username, password, search, hash } = new URL(url.includes(":") ? url : "x:"); // x: is refused below
    this.isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
    const isSafe = protocol === "https:" || (protocol === "http:" && this.isLocal);
    if (!isSafe || username || password || search || hash) {
      throw new TypeError("the collector must be https (http on this machine)");
    }
    this.address = `${url.replace(/\/+$/, "")}/v1/reports`;
  }

  async send(body: Uint8Array, stop?: AbortSignal): Promise<number> {
    const response = await fetch(this.address, {
      method: "POST",
      headers: { "Content-Type": MEDIA_TYPE, [ID_HEADER]: batchId(body) },
      body: body as Uint8Array<ArrayBuffer>,
      ...{ redirect: "error", credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" },
      signal: limited(stop),
    }).catch(() => {
      throw new Unreachable("the collector cannot be reached from this origin");
    });
    if (response.status !== 202) {
      await response.body?.cancel().catch(() => null); // it may have broken off
      const wait = Number(response.headers.get("Retry-After")) || 0; // a date counts as none
      throw new Unreachable(`the collector answered ${response.status}`, wait);
    }
    const answer = await response.json().catch(() => null);
    if (!Array.isArray(answer?.refused)) {
      throw new Unreachable("the collector's answer cannot be read");
    }
    return answer.refused.length;
  }
}

export const NO_DESTINATION = "there is no destination";
const HELD = "is held: the clock shows another time than when it was sealed";
const NOTHING = "nothing is recorded that was not sent";
const FAILED = "waits after a failure";
const RANDOM_MOMENT = "waits for its random moment";

const waitingOf = (device: Device) => device.batches.filter(({ state }) => state === "waiting");
const hasFailed = ({ nextTry }: Device, clock: number): boolean =>
  clock < nextTry && nextTry <= clock + LONGEST_WAIT;

/** A batch that may leave now, each as likely; or why none may. */
export function nextBatch(device: Device, now: number, clock: number, bits: BitSource) {
  const waiting = waitingOf(device);
  if (!waiting.length) return "";
  if (hasFailed(device, clock)) return FAILED;
  const ready = waiting.filter(({ notBefore }) => notBefore <= now);
  return ready.length ? ready[indexBelow(bits, ready.length)]! : RANDOM_MOMENT;
}

/** Why nothing more is sent now, and the earliest time of the next batch, if a clock decides it. */
export function outlook(
  device: Device,
  now: number,
  clock: number,
  hasDestination: boolean,
  failure: string,
) {
  const until = (moment: number, why: string) =>
    moment <= now
      ? { why: "waits for upload(), which start() calls", nextUpload: null }
      : { why, nextUpload: new Date(1000 * moment) };
  const moments = waitingOf(device).map(({ notBefore }) => notBefore);
  if (!moments.length) {
    const ends = device.periods.map((period) => period.ends);
    return ends.length
      ? until(Math.min(...ends), "what was recorded is sealed after its period")
      : { why: device.batches.some(({ state }) => state === "held") ? HELD : NOTHING, nextUpload: null };
  }
  if (!hasDestination) return { why: NO_DESTINATION, nextUpload: null };
  if (hasFailed(device, clock)) {
    return { why: [FAILED, failure].filter(Boolean).join(": "), nextUpload: new Date(1000 * device.nextTry) };
  }
  return until(Math.min(...moments), RANDOM_MOMENT);
}

/** Note that a batch was taken; its bytes stay where the app keeps what was sent. */
export function acknowledge(device: Device, id: string, refused: number, keeps: boolean): void {
  const batch = device.batches.find((other) => other.id === id);
  device.failures = device.nextTry = 0;
  if (!batch || !["waiting", "held", "withdrawn"].includes(batch.state)) return;
  const body = keeps ? batch.body : null;
  Object.assign(batch, { state: "acknowledged", body, notBefore: 0 } as Partial<SealedBatch>);
  device.refused += refused;
}

/** Set the next try: exponential back-off with full jitter. */
export function noteFailure(device: Device, error: unknown, clock: number, bits: BitSource): void {
  device.failures += 1;
  const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(device.failures, 16));
  const asked = error instanceof Unreachable ? Math.min(error.retryAfter, LONGEST_WAIT) : 0;
  device.nextTry = clock + Math.max(indexBelow(bits, longest + 1), asked);
}
