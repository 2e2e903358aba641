// What was spent, and what may still be: exact sums, in 1 / UNIT. No charge is ever refunded.

import { bare } from "./bytes.js";
import {
  type Account, dayOf, type Device, ending, type Epoch, isOf, type Span, type Terms,
} from "./device.js";
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

/** Most sealed windows of a group that are kept: those that end last. No clock forgets any. */
const MOST_WINDOWS = 400;
/** Numbers of a charge among `recent`: its period, how often, beginning and end of what it is about. */
const FIELDS = 4;

/** What was charged counts for its group, for the metric's group today, and for all once it is gone. */
const counted = ({ accounts }: Device, registry: Registry, group: string): Account[] =>
  accounts.filter(
    ({ group: charged, metric }) =>
      !registry.metrics[metric] || group === charged || group === registry.groupOf(metric),
  );

const total = (charges: readonly Pick<Account, "price" | "times">[]): bigint =>
  charges.reduce((sum, { price, times }) => sum + BigInt(times) * exact(price), 0n);

/** How often an account was charged for what overlaps a span of time. */
function timesIn({ recent }: Account, after: number, before: number): number {
  let times = 0;
  for (let i = 0; i < recent.length; i += FIELDS) {
    if (recent[i + 3]! > after && recent[i + 2]! < before) times += recent[i + 1]!;
  }
  return times;
}

/** What a group may still be charged for life; below 0 past a cap. */
export function lifeLeft(device: Device, registry: Registry, group: string): bigint {
  const { terms, accounts } = device;
  const caps = registry.groups[group];
  const shown = terms.groups[group];
  if (!caps || !shown) return 0n;
  const cap = least(exact(caps.lifetime_epsilon), exact(shown.lifetime_epsilon));
  const left = cap - total(counted(device, registry, group));
  const lifetime = Math.min(terms.lifetime, registry.lifetime);
  return lifetime === Infinity ? left : least(left, exact(lifetime) - total(accounts));
}

/** What a group may still be charged for the period that ends at `end`. What was charged is about a
 * span of time: of windows of another length, or after this one where the clock went back. A window
 * that was sealed or forgotten has nothing left. */
export function budget(device: Device, registry: Registry, group: string, end: number): Budget {
  const caps = registry.groups[group];
  const shown = device.terms.groups[group];
  if (!caps || !shown) return { life: 0n, window: 0n, report: 0 };
  const life = lifeLeft(device, registry, group);
  const reserved = setAside(device, registry, group, end);
  const accounts = counted(device, registry, group);
  const forgotten = Math.max(0, ...accounts.map((account) => account.forgotten));
  const windows = [caps, shown].map(({ window, window_epsilon }) => {
    // windows of the length agreed to may reach beyond this period
    const first = Math.min(end, ending(end - caps.window, window)) - window;
    const last = Math.max(end - caps.window + window, ending(end - 1, window));
    const near = accounts.map((one) => ({ ...one, times: timesIn(one, first, last) }));
    const left = exact(window_epsilon) - total(near);
    const isOver = isSealed(device, group, end) || forgotten > Math.max(0, first);
    return (isOver ? least(left, 0n) : left) - reserved;
  });
  const report = Math.min(caps.report_epsilon ?? Infinity, shown.report_epsilon ?? Infinity);
  return { life, window: least(life, ...windows), report };
}

/** What a period sets aside for epochs: not for a hidden one whose response was charged already, by a
 * clock that went back. */
export function setAside(device: Device, registry: Registry, group: string, end: number): bigint {
  const day = dayOf(end - 1);
  const paid = registry.metricsOf(group).filter((metric) => {
    const { epoch, expires, presence } = metric;
    if (!epoch || presence !== "hidden" || expires < day) return false;
    return device.epochs.find(isOf(metric, ending(end - 1, epoch) + epoch))?.charged;
  });
  return registry.setAside(group, day) - paid.reduce((sum, { cost }) => sum + cost, 0n);
}

/** Whether something was sent of a period: only a clock that went back shows a time in such a one, of
 * which nothing more is sent. */
export function isSealed({ sealed }: Device, group: string, end: number): boolean {
  const ends = sealed[group] ?? new Float64Array();
  return ends.includes(end) || (ends.length > MOST_WINDOWS && end < ends[0]!);
}

/** Charge a period. `span`: beginning and end of the time that the reports are about. */
export function charge(device: Device, metric: Metric, at: number, times: number, span: Span): void {
  const { group, name, price } = metric;
  let account = device.accounts.find(
    (one) => one.group === group && one.metric === name && one.price === price,
  );
  if (!account) {
    account = { group, metric: name, price, times: 0, forgotten: 0, recent: new Float64Array() };
    device.accounts.push(account);
  }
  account.times += times;
  account.recent = Float64Array.of(...account.recent, at, times, ...span);
}

/** Note that something was sent of a period, and forget but the sums of what is beyond MOST_WINDOWS,
 * and the responses of epochs that ended before. */
export function markSealed(device: Device, group: string, end: number): void {
  const ends = Float64Array.of(...(device.sealed[group] ?? []), end).sort();
  device.sealed[group] = ends.slice(-MOST_WINDOWS - 1);
  if (ends.length <= MOST_WINDOWS) return;
  const [last] = device.sealed[group] as unknown as [number];
  for (const account of device.accounts.filter((one) => one.group === group && one.recent.length)) {
    const kept: number[] = [];
    account.forgotten = Math.max(account.forgotten, last);
    for (let i = 0; i < account.recent.length; i += FIELDS) {
      const charged = account.recent.slice(i, i + FIELDS);
      if (charged[0]! > last) kept.push(...charged);
      else account.forgotten = Math.max(account.forgotten, charged[3]!);
    }
    account.recent = Float64Array.from(kept);
  }
  const isOver = ({ charged, metric, ends: epoch }: Epoch): boolean =>
    charged && device.accounts.some((one) => one.metric === metric && epoch <= one.forgotten);
  device.epochs = device.epochs.filter((epoch) => !isOver(epoch));
}

/** As a number, rounded down to a millionth. */
export const rounded = (epsilon: bigint): number =>
  epsilon > 0n ? Number((epsilon * 1_000_000n) / UNIT) / 1_000_000 : 0;
