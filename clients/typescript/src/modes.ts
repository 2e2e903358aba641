// How a metric is memoised: what a record enters, what a period may afford, and what it takes.

import { type Budget } from "./charges.js";
import { byKey, type Device, ending, type Epoch, isOf, type Period, type Pooled, type Span } from "./device.js";
import { message, toHex } from "./bytes.js";
import type { Value } from "./encoder.js";
import { drawResponse, KeyedResponses, reportOf } from "./memory.js";
import { type BitSource, digest, indexBelow } from "./randomness.js";
import type { Metric } from "./registry.js";

/** One metric on one device. */
export interface Scene {
  readonly device: Device;
  readonly metric: Metric;
  /** Length of a window of its group. */
  readonly window: number;
  readonly bits: BitSource;
  /** What per-value responses are a function of; made when it is first needed. */
  secret(): Uint8Array;
}

/** How many reports may be sent of a period, and what is reserved for them. */
export interface Grant {
  readonly reports: number;
  readonly life: bigint;
  readonly window: bigint;
}

export interface Taken {
  readonly reports: Uint8Array[];
  /** How often the price is charged. */
  readonly times: number;
}

export interface Mode {
  /** Enter a record into the draw of its period or epoch. */
  enter(scene: Scene, value: Value, now: number): void;
  /** The response that a record made now would be about, if that is settled. */
  current?(scene: Scene, now: number): Epoch | undefined;
  /** What may be sent of the period that ends at `end`. */
  grant(scene: Scene, end: number, budget: Budget): Grant;
  take(scene: Scene, end: number, grant: Grant): Taken;
  /** The time that reports which are charged in the period that ends at `end` are about. */
  span(scene: Scene, end: number): Span;
}

const NOTHING: Grant = { reports: 0, life: 0n, window: 0n };

/** Enter a record into the draw of its period; only a winner is encoded (Vitter 1985). */
function enterPeriod({ device, metric, window, bits }: Scene, now: number, draw: () => Pooled) {
  const ends = ending(now, window);
  let period = device.periods.find(isOf(metric, ends));
  if (!period) {
    const { name, version, meaning } = metric;
    period = { ends, metric: name, version, meaning, records: 0, pool: {} };
    device.periods.push(period);
    device.periods.sort(byKey);
  }
  const slots = metric.reports_per_window;
  let slot = indexBelow(bits, Math.max(slots, period.records + 1));
  // in a damaged document no slot may be free
  while (period.pool[slot] && Object.keys(period.pool).length < slots) slot = indexBelow(bits, slots);
  period.records += 1;
  if (slot < slots) period.pool[slot] = draw();
}

/** At most `limit` winners of a period, by slot. */
const winners = ({ device, metric }: Scene, end: number, limit: number): Pooled[] => {
  const period: Period | undefined = device.periods.find(isOf(metric, end));
  return Object.values(period?.pool ?? {}).slice(0, limit);
};

const reportsOf = (pooled: Pooled[]): Uint8Array[] => pooled.map(({ report }) => report);

/** Fresh noise in every report: each costs one price. */
const fresh: Mode = {
  enter(scene, value, now) {
    const { metric, bits } = scene;
    enterPeriod(scene, now, () => ({ report: metric.encoder.encode(value, bits) }));
  },
  grant({ metric }, _end, { life, window, report }) {
    if (metric.epsilon > report) return NOTHING;
    const fitting = Number((window < life ? window : life) / metric.cost);
    const reports = Math.max(0, Math.min(metric.reports_per_window, fitting));
    const cost = BigInt(reports) * metric.cost;
    return { reports, life: cost, window: cost };
  },
  take(scene, end, grant) {
    const reports = reportsOf(winners(scene, end, grant.reports));
    return { reports, times: reports.length };
  },
  span: ({ window }, end) => [end - window, end],
};

/** As many reports as there are slots, whatever was recorded: about none where nothing was. */
const hiddenFresh: Mode = {
  ...fresh,
  take(scene, end, grant) {
    const { metric, bits } = scene;
    const { reports } = fresh.take(scene, end, grant);
    while (reports.length < metric.reports_per_window) {
      reports.push(metric.encoder.encode(metric.none!, bits));
    }
    return { reports, times: grant.reports };
  },
};

/** One permanent response for each value: its first report costs the price. */
const perValue: Mode = {
  ...fresh,
  enter(scene, value, now) {
    const { metric, bits } = scene;
    enterPeriod(scene, now, () => {
      const key = (purpose: string) =>
        digest(
          scene.secret(),
          message(purpose, metric.name, `${metric.version}`, metric.encoder.fingerprint),
        );
      const responses = new KeyedResponses(metric.encoder, key("response"));
      const tag = toHex(digest(key("tag"), responses.cell(value)).subarray(0, 16));
      return { report: reportOf(metric.encoder, responses.response(value), bits), tag };
    });
  },
  take(scene, end, grant) {
    const pooled = winners(scene, end, grant.reports);
    const known = new Set(scene.device.tags);
    const tags = new Set(pooled.map(({ tag }) => tag!).filter((tag) => !known.has(tag)));
    scene.device.tags.push(...tags);
    scene.device.tags.sort();
    return { reports: reportsOf(pooled), times: tags.size };
  },
};

/** One response for all reports of an epoch, to its first value: they cost one price together. */
const byEpoch: Mode = {
  enter(scene, value, now) {
    const { metric, bits } = scene;
    let epoch = byEpoch.current!(scene, now);
    if (!epoch) {
      epoch = newEpoch(scene, ending(now, metric.epoch!));
      epoch.response = drawResponse(metric.encoder, value, bits);
      epoch.source = ending(now, scene.window);
    }
    const { response } = epoch;
    enterPeriod(scene, now, () => ({ report: reportOf(metric.encoder, response!, bits) }));
  },
  current: (scene, now) => epochOf(scene, ending(now, scene.metric.epoch!)),
  span(scene, end) {
    const { source } = byEpoch.current!(scene, end - 1)!;
    return [source - scene.window, source];
  },
  grant(scene, end, budget) {
    const { metric } = scene;
    const epoch = byEpoch.current!(scene, end - 1);
    if (epoch?.charged) {
      return { ...NOTHING, reports: epoch.response ? metric.reports_per_window : 0 };
    }
    const fits = metric.epsilon <= budget.report && metric.cost <= budget.life;
    if (!fits || budget.window < 0n) return NOTHING;
    return { reports: metric.reports_per_window, life: metric.cost, window: 0n };
  },
  take(scene, end, grant) {
    const reports = reportsOf(winners(scene, end, grant.reports));
    if (!reports.length || !grant.life) return { reports, times: 0 };
    byEpoch.current!(scene, end - 1)!.charged = true;
    return { reports, times: 1 };
  },
};

/** One response an epoch, to a value drawn in the epoch before, or to none. */
const hiddenByEpoch: Mode = {
  grant: byEpoch.grant,
  span({ metric: { epoch } }, end) {
    const beginning = ending(end - 1, epoch!) - epoch!;
    return [beginning - epoch!, beginning];
  },
  enter(scene, value, now) {
    const { metric, bits } = scene;
    const ends = ending(now, metric.epoch!) + metric.epoch!;
    const next = epochOf(scene, ends) ?? newEpoch(scene, ends);
    if (next.charged) return; // before a clock went back
    next.records += 1;
    if (indexBelow(bits, next.records) === 0) {
      next.response = drawResponse(metric.encoder, value, bits);
    }
  },
  take(scene, end, grant) {
    const { metric, bits } = scene;
    const { encoder, none } = metric;
    const slots = Array.from({ length: metric.reports_per_window });
    if (!grant.reports) return { reports: slots.map(() => encoder.encode(none!, bits)), times: 0 };
    const epoch =
      byEpoch.current!(scene, end - 1) ?? newEpoch(scene, ending(end - 1, metric.epoch!));
    epoch.response ??= drawResponse(encoder, none!, bits);
    epoch.charged ||= grant.life > 0n;
    const { response } = epoch;
    return {
      reports: slots.map(() => reportOf(encoder, response, bits)),
      times: Number(grant.life > 0n),
    };
  },
};

const epochOf = ({ device, metric }: Scene, end: number): Epoch | undefined =>
  device.epochs.find(isOf(metric, end));

/** An epoch without a response, which is kept from now on. */
function newEpoch({ device, metric: { name, version, meaning } }: Scene, ends: number): Epoch {
  const epoch: Epoch = {
    ...{ ends, metric: name, version, meaning, records: 0, charged: false, response: null, source: 0 },
  };
  device.epochs.push(epoch);
  device.epochs.sort(byKey);
  return epoch;
}

const MODES: Record<string, Mode> = {
  "fresh public": fresh,
  "fresh hidden": hiddenFresh,
  "per-value public": perValue,
  "epoch public": byEpoch,
  "epoch hidden": hiddenByEpoch,
};

export const modeOf = ({ memoise, presence }: Pick<Metric, "memoise" | "presence">): Mode =>
  MODES[`${memoise ?? "fresh"} ${presence}`]!;

/** An account's secret, for one product. */
export const accountSecret = (secret: Uint8Array, product: string): Uint8Array =>
  digest(secret, message("product", product));

