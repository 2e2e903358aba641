// What was spent, and what may still be: exact sums, in 1 / UNIT. No charge is ever refunded.

import { bare } from "./bytes.js";
import { type Charge, dayOf, type Device, type Terms } from "./device.js";
import { exact, UNIT } from "./probability.js";
import type { Caps, Metric, Registry } from "./registry.js";

/** Epsilon that is left, in 1 / UNIT: for life, in the window, for one report. */
export interface Budget {
  readonly life: bigint;
  readonly window: bigint;
  readonly report: number;
}

const least = (...numbers: bigint[]): bigint => numbers.reduce((a, b) => (b < a ? b : a));

export const termsOf = ({ lifetime, groups, metrics }: Registry): Terms => ({
  ...{ lifetime, groups: bare<Caps>(groups), metrics: Object.keys(metrics) },
});

/** Groups that are new since the consent, or allow more. */
export function groupsToAsk({ terms }: Device, registry: Registry): string[] {
  const isLooser = (caps: Caps, shown: Caps | undefined): boolean =>
    !shown ||
    caps.lifetime_epsilon > shown.lifetime_epsilon ||
    caps.window < shown.window ||
    caps.window_epsilon > shown.window_epsilon ||
    (caps.report_epsilon ?? Infinity) > (shown.report_epsilon ?? Infinity);
  return Object.keys(registry.groups).filter((name) =>
    isLooser(registry.groups[name]!, terms.groups[name]),
  );
}

/** What is new since the consent, or allows more: smaller caps hold until the owner is asked. */
export function unasked(device: Device, registry: Registry): string[] {
  const { terms } = device;
  const metrics = Object.keys(registry.metrics).filter((name) => !terms.metrics.includes(name));
  const product = registry.lifetime > terms.lifetime ? ["[product]"] : [];
  return [...groupsToAsk(device, registry), ...metrics, ...product];
}

/** Most windows of a group whose charges are kept: those that end last. No clock forgets any. */
const MOST_WINDOWS = 400;

/** Charges count for their group, for the metric's group today, and for all once it is gone. */
const counted = (registry: Registry, group: string, charges: readonly Charge[]): Charge[] =>
  charges.filter(
    ({ group: charged, metric }) =>
      !registry.metrics[metric] || group === charged || group === registry.groupOf(metric),
  );

const between = (charges: readonly Charge[], after: number, before: number): Charge[] =>
  charges.filter(({ at }) => at > after && at < before);

const lastForgotten = ({ forgotten }: Device, registry: Registry, group: string): number =>
  counted(registry, group, forgotten).reduce((last, { at }) => Math.max(last, at), 0);

const total = (charges: readonly Charge[]): bigint =>
  charges.reduce((sum, { price, times }) => sum + BigInt(times) * exact(price), 0n);

/** What a group may still be charged for life; below 0 past a cap. */
export function lifeLeft({ terms, charges, forgotten }: Device, registry: Registry, group: string): bigint {
  const [caps, shown] = [registry.groups[group], terms.groups[group]];
  if (!caps || !shown) return 0n;
  const cap = least(exact(caps.lifetime_epsilon), exact(shown.lifetime_epsilon));
  const all = [...forgotten, ...charges];
  const left = cap - total(counted(registry, group, all));
  const lifetime = Math.min(terms.lifetime, registry.lifetime);
  return lifetime === Infinity ? left : least(left, exact(lifetime) - total(all));
}

/** What a group may still be charged for the period that ends at `end`. A clock that leaped may have
 * charged windows after it; windows that are forgotten have nothing left. */
export function budget(device: Device, registry: Registry, group: string, end: number): Budget {
  const [caps, shown] = [registry.groups[group], device.terms.groups[group]];
  if (!caps || !shown) return { life: 0n, window: 0n, report: 0 };
  const life = lifeLeft(device, registry, group);
  const reserved = registry.setAside(group, dayOf(end - 1));
  const windows = [caps, shown].map(({ window, window_epsilon }) => {
    const near = between(device.charges, end - window, end + window);
    const left = exact(window_epsilon) - total(counted(registry, group, near));
    const isKnown = lastForgotten(device, registry, group) <= end - window;
    return (isKnown ? left : least(left, 0n)) - reserved;
  });
  const report = Math.min(caps.report_epsilon ?? Infinity, shown.report_epsilon ?? Infinity);
  return { life, window: least(life, ...windows), report };
}

/** Whether the windows of a period may have charges of it or after it: only a clock that went back
 * shows a time in such a period. */
export function isCharged(device: Device, registry: Registry, group: string, end: number): boolean {
  const caps = [registry.groups[group]!, device.terms.groups[group]!];
  const last = end + Math.max(...caps.map(({ window }) => window));
  const near = counted(registry, group, between(device.charges, end - 1, last));
  return near.length > 0 || lastForgotten(device, registry, group) >= end;
}

/** Charge a period, and forget but the sum of what is beyond MOST_WINDOWS. */
export function charge(device: Device, metric: Metric, at: number, times: number): void {
  if (!times) return;
  const { group, name, price } = metric;
  device.charges.push({ group, metric: name, price, times, at });
  const ends = new Set(device.charges.filter((one) => one.group === group).map((one) => one.at));
  if (ends.size <= MOST_WINDOWS) return;
  const last = Math.min(...ends);
  const isOver = (one: Charge): boolean => one.group === group && one.at <= last;
  for (const over of device.charges.filter(isOver)) {
    const sum = device.forgotten.find(
      (one) => one.group === group && one.metric === over.metric && one.price === over.price,
    );
    if (!sum) device.forgotten.push({ ...over });
    else Object.assign(sum, { times: sum.times + over.times, at: Math.max(sum.at, over.at) });
  }
  device.charges = device.charges.filter((one) => !isOver(one));
}

/** As a number, rounded down to a millionth. */
export const rounded = (epsilon: bigint): number =>
  epsilon > 0n ? Number((epsilon * 1_000_000n) / UNIT) / 1_000_000 : 0;
