// Sealing: what a period may send is charged in the transaction that makes it a batch.

import { packBatch, splitIntoBatches, type Item } from "./batch.js";
import { budget, charge, isSealed, markSealed } from "./charges.js";
import { DAY, dayOf, type Device, ending, isOf, isUnsent, type Key } from "./device.js";
import { bare, range, toBytes, toHex } from "./bytes.js";
import { modeOf, type Scene } from "./modes.js";
import { type BitSource, indexBelow } from "./randomness.js";
import type { Metric, Registry } from "./registry.js";

/** Most bytes of batches that wait: beyond it the oldest are dropped, and counted. */
const MOST_WAITING = 4 << 20;
/** Days of batches that were taken after which one of before, which is held, is dropped. */
const HELD_DAYS = 30;
/** Most periods of a hidden group that are sealed at once; where more are over, the latest. */
const MOST_PERIODS = 30;
/** Most batches that are listed without their bytes, beside one a day for HELD_DAYS; earlier ones are
 * counted. */
const MOST_LISTED = 100;

/** A period of a group: its end in seconds since 1970. "": metrics that are gone. */
export interface Due {
  readonly end: number;
  readonly group: string;
}

/** What sealing needs to know beside the device. */
export interface Surroundings {
  readonly registry: Registry;
  readonly bits: BitSource;
  /** Seconds that a sealed batch waits at most before it may leave. */
  readonly jitter: number;
  secret(device: Device): Uint8Array;
}

export const sceneOf = (around: Surroundings, device: Device, metric: Metric): Scene => ({
  ...{ device, metric, bits: around.bits, secret: () => around.secret(device) },
  window: around.registry.groups[metric.group]!.window,
});

/** The periods that are over and have records, of groups with public presence. */
export function publicPeriods(device: Device, registry: Registry, now: number): Due[] {
  const due = new Map<string, Due>();
  for (const { ends: end, metric } of device.periods) {
    const group = registry.groupOf(metric);
    if (end <= now && !registry.isHidden(group)) due.set(`${end} ${group}`, { end, group });
  }
  return [...due.values()];
}

/** The periods that are over of hidden groups, by their calendars; one that has none, or a later one
 * because the clock went back, begins now. One that is behind by more than MOST_PERIODS goes on with
 * the latest: a leap of the clock charges no more. */
export function hiddenPeriods(device: Device, registry: Registry, now: number): Due[] {
  return Object.entries(registry.groups)
    .filter(([group]) => registry.isHidden(group) && device.terms.groups[group])
    .flatMap(([group, { window }]) => {
      const current = ending(now, window) - window;
      const last = Math.min(device.calendars[group] ?? current, current);
      device.calendars[group] = last;
      const next = ending(last, window);
      const first = current - next < MOST_PERIODS * window ? next : current;
      const length = (current - first) / window + 1;
      return range(length).map((i) => ({ end: first + i * window, group }));
    });
}

/** Charge what these periods may send, add it as sealed batches, and delete all else of them. */
export function seal(device: Device, around: Surroundings, due: readonly Due[], now: number) {
  const { registry, bits } = around;
  const items: Item[] = [];
  const byGroup = (a: Due, b: Due) => a.end - b.end || (a.group < b.group ? -1 : 1);
  for (const { end, group } of [...due].sort(byGroup)) {
    if (registry.groups[group] && !isSealed(device, group, end)) items.push(...chargedItems(device, around, group, end));
    forget(device, registry, group, end);
  }
  forgetOthers(device, registry, dayOf(Math.max(...due.map(({ end }) => end)) - 1));
  for (const content of splitIntoBatches(inRandomOrder(items, bits))) {
    const groups = content.map(({ metric }) => registry.groups[registry.groupOf(metric)]!);
    const lateness = Math.min(...groups.map((group) => group.lateness));
    const id = toHex(toBytes(bits.draw(128), 16));
    const reports = bare<number>();
    for (const { metric } of content) reports[metric] = (reports[metric] ?? 0) + 1;
    device.batches.push({
      ...{ id, reports, state: "waiting", day: dayOf(now) },
      lastDay: dayOf(now - (now % DAY) + lateness),
      notBefore: now + indexBelow(bits, 1 + around.jitter),
      body: packBatch(id, Math.floor(now / DAY), content),
    });
  }
}

/** The reports of one period of a group, charged. The order of its metrics is drawn first. */
function chargedItems(device: Device, around: Surroundings, group: string, end: number): Item[] {
  const { registry, bits } = around;
  const day = dayOf(end - 1);
  const metrics = registry.metricsOf(group).filter(({ name, expires }) =>
    expires >= day && device.terms.metrics.includes(name),
  );
  let left = budget(device, registry, group, end);
  const items = inRandomOrder(metrics, bits).flatMap((metric) => {
    const scene = sceneOf(around, device, metric);
    const mode = modeOf(metric);
    const grant = mode.grant(scene, end, left);
    left = { ...left, life: left.life - grant.life, window: left.window - grant.window };
    const { reports, times } = mode.take(scene, end, grant);
    if (times) charge(device, metric, end, times, mode.span(scene, end));
    const { name, version } = metric;
    return reports.map((report) => ({ metric: name, version, report }));
  });
  if (items.length) markSealed(device, group, end);
  return items;
}

/** Delete what a period pooled, and the epochs that ended before it uncharged. */
function forget(device: Device, registry: Registry, group: string, end: number): void {
  device.periods = device.periods.filter(
    ({ ends, metric }) => ends > end || registry.groupOf(metric) !== group,
  );
  device.epochs = device.epochs.filter(
    ({ ends, metric, charged }) =>
      charged || ends >= end || ![group, ""].includes(registry.groupOf(metric)),
  );
  if (registry.isHidden(group)) device.calendars[group] = end;
}

/** Delete responses that were not charged, of metrics that changed, are gone, or expired. */
function forgetOthers(device: Device, registry: Registry, day: string): void {
  const current = Object.values(registry.metrics).filter(({ expires }) => expires >= day);
  const isCurrent = (key: Key) => current.some((metric) => isOf(metric)(key));
  const stale = device.epochs.filter((epoch) => !epoch.charged && !isCurrent(epoch));
  device.epochs = device.epochs.filter((epoch) => !stale.includes(epoch));
  const isStale = (key: Key) =>
    stale.some((old) => old.metric === key.metric && old.version === key.version &&
      old.meaning === key.meaning);
  device.periods = device.periods.filter((period) => !isStale(period));
}

/** Delete what metrics recorded whose group or window changed: their periods overlap today's.
 * Returns whether any had. */
export function settle(device: Device, registry: Registry): boolean {
  let isChanged = false;
  for (const { name, group } of Object.values(registry.metrics)) {
    const place = `${group} ${registry.groups[group]!.window}`;
    if ((device.layout[name] ??= place) === place) continue;
    isChanged = true;
    device.layout[name] = place;
    device.periods = device.periods.filter(({ metric }) => metric !== name);
    device.epochs = device.epochs.filter(({ metric, charged }) => metric !== name || charged);
  }
  return isChanged;
}

/** Hold batches that no collector takes on the clock's day, until it is another; drop those that are
 * held after batches of HELD_DAYS later days were taken, and the held and the oldest beyond MOST_WAITING
 * bytes; delete the bytes of those that were sent and kept for
 * `keepSent` days, and count those beyond MOST_LISTED only. */
export function drop(device: Device, now: number, keepSent: number): void {
  const today = dayOf(now);
  const firstKept = dayOf(Math.max(0, now - keepSent * DAY));
  const sent = device.batches.filter((batch) => !isUnsent(batch));
  for (const batch of sent) {
    if (!keepSent || batch.day < firstKept || batch.day > today) batch.body = null;
  }
  const unsent = device.batches.filter(isUnsent).reverse();
  for (const batch of unsent) {
    batch.state = batch.day <= today && today <= batch.lastDay ? "waiting" : "held";
  }
  const taken = sent.filter(({ state }) => state === "acknowledged");
  const ofDay = new Map(taken.map((batch) => [batch.day, batch]));
  const last = [...ofDay.keys()].sort().at(-HELD_DAYS) ?? "";
  let total = 0;
  for (const batch of unsent.sort((a, b) => b.state.localeCompare(a.state))) { // held ones last
    total += batch.body!.length;
    const isOver = batch.state === "held" && batch.lastDay < last;
    if (isOver || total > MOST_WAITING) Object.assign(batch, { state: "dropped", body: null, notBefore: 0 });
  }
  // of each of these days one stays, by which they are counted
  const unlisted = new Set(
    sent.filter(({ body }) => !body).slice(0, -MOST_LISTED)
      .filter((batch) => batch.day < last || ofDay.get(batch.day) !== batch),
  );
  for (const { state } of unlisted) device.unlisted[state] = (device.unlisted[state] ?? 0) + 1;
  device.batches = device.batches.filter((batch) => !unlisted.has(batch));
}

/** Delete all that waits after a withdrawal. Charges stay; a charged epoch sends nothing more. */
export function withdraw(device: Device): void {
  device.consent = "withdrawn";
  device.periods = [];
  device.epochs = device.epochs.filter(({ charged }) => charged);
  for (const epoch of device.epochs) epoch.response = null;
  device.calendars = bare();
  device.declined = bare();
  device.secret?.fill(0);
  device.secret = null;
  for (const batch of device.batches) {
    if (isUnsent(batch)) Object.assign(batch, { state: "withdrawn", notBefore: 0 });
    batch.body = null;
  }
}

/** The items in a uniformly random order (Durstenfeld 1964). */
export function inRandomOrder<T>(items: readonly T[], bits: BitSource): T[] {
  const order = [...items];
  for (let i = order.length - 1; i > 0; i -= 1) {
    const j = indexBelow(bits, i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}
