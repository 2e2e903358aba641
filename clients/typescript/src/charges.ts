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

/** Charges count for their group, for the metric's group today, and for all once it is gone. */
const spent = (registry: Registry, group: string, charges: readonly Charge[]): bigint =>
  total(
    charges.filter(
      ({ group: charged, metric }) =>
        !registry.metrics[metric] || group === charged || group === registry.groupOf(metric),
    ),
  );

const total = (charges: readonly Charge[]): bigint =>
  charges.reduce((sum, { price, times }) => sum + BigInt(times) * exact(price), 0n);

/** What a group may still be charged for life; below 0 past a cap. */
export function lifeLeft({ terms, charges }: Device, registry: Registry, group: string): bigint {
  const [caps, shown] = [registry.groups[group], terms.groups[group]];
  if (!caps || !shown) return 0n;
  const cap = least(exact(caps.lifetime_epsilon), exact(shown.lifetime_epsilon));
  const left = cap - spent(registry, group, charges);
  const lifetime = Math.min(terms.lifetime, registry.lifetime);
  return lifetime === Infinity ? left : least(left, exact(lifetime) - total(charges));
}

/** What a group may still be charged for the period that ends at `end`. */
export function budget(device: Device, registry: Registry, group: string, end: number): Budget {
  const [caps, shown] = [registry.groups[group], device.terms.groups[group]];
  if (!caps || !shown) return { life: 0n, window: 0n, report: 0 };
  const life = lifeLeft(device, registry, group);
  const reserved = registry.setAside(group, dayOf(end - 1));
  const windows = [caps, shown].map(({ window, window_epsilon }) => {
    const recent = device.charges.filter(({ at }) => at > end - window);
    return exact(window_epsilon) - spent(registry, group, recent) - reserved;
  });
  const report = Math.min(caps.report_epsilon ?? Infinity, shown.report_epsilon ?? Infinity);
  return { life, window: least(life, ...windows), report };
}

export function charge(device: Device, metric: Metric, at: number, times: number): void {
  const { group, name, price } = metric;
  if (times) device.charges.push({ group, metric: name, price, times, at });
}

/** As a number, rounded down to a millionth. */
export const rounded = (epsilon: bigint): number =>
  epsilon > 0n ? Number((epsilon * 1_000_000n) / UNIT) / 1_000_000 : 0;
