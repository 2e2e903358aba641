// What a device may send and what that tells, for its owner: as data, and as the text of that data.

import { budget, rounded, setAside } from "./charges.js";
import { DAY, type Device, ending } from "./device.js";
import type { Registry } from "./registry.js";

export interface Explanation {
  readonly product: string;
  readonly consent: string;
  readonly questions: readonly Question[];
  readonly groups: readonly Allowance[];
  /** Why metrics of the registry are never recorded, by name. */
  readonly problems: Readonly<Record<string, string>>;
}

export interface Question {
  readonly name: string;
  readonly description: string;
  readonly group: string;
  readonly reports: number;
  readonly window: number;
  readonly epsilon: number;
  /** What a report's receiver can believe at most who believed in an answer with 50 percent. */
  readonly belief: number;
  /** So many linked reports with fresh noise, or more, let a guess be right so often. */
  readonly linked: number;
  readonly memoise: string;
  /** Epsilon of a charge: with `memoise` of all reports about one value, or of an epoch. */
  readonly charged: number;
  /** Epsilon that one report can tell about a value that changes: with `memoise` "per-value". */
  readonly changing: number;
  readonly presence: string;
  readonly expires: string;
}

export interface Allowance {
  readonly name: string;
  readonly window: number;
  readonly windowEpsilon: number;
  /** Whether the epsilons hold only as long as nobody learns when a value changes. */
  readonly isConditional: boolean;
  /** At most, in any 24 hours: all windows that they touch. */
  readonly dayEpsilon: number;
  readonly lifetimeEpsilon: number;
  readonly remaining: number;
}

/** How often a guess between two answers, equally likely before, is to be right. */
const CERTAINTY = 0.99;

export function explanation(
  registry: Registry,
  device: Device | null,
  consent: string,
  now: number,
): Explanation {
  const questions = Object.values(registry.metrics).map((metric) => ({
    ...{ name: metric.name, description: metric.description, group: metric.group },
    ...{ reports: metric.reports_per_window, window: registry.groups[metric.group]!.window },
    ...{ epsilon: metric.epsilon, belief: 1 / (1 + Math.exp(-metric.epsilon)) },
    linked: Math.ceil(Math.log(CERTAINTY / (1 - CERTAINTY)) / metric.epsilon),
    ...{ charged: metric.price, changing: metric.changing_per_value ?? Infinity },
    ...{ memoise: metric.memoise ?? "", presence: metric.presence, expires: metric.expires },
  }));
  const groups = Object.entries(registry.groups).map(([name, caps]) => ({
    ...{ name, window: caps.window, windowEpsilon: caps.window_epsilon },
    isConditional: registry.metricsOf(name).some(({ memoise }) => memoise === "per-value"),
    dayEpsilon: Math.min(
      caps.lifetime_epsilon,
      registry.lifetime,
      caps.window_epsilon * (Math.ceil(DAY / caps.window) + 1),
    ),
    lifetimeEpsilon: Math.min(caps.lifetime_epsilon, registry.lifetime),
    remaining: rest(device, registry, name, now),
  }));
  return { product: registry.product, consent, questions, groups, problems: registry.problems };
}

/** Epsilon that a group could still spend in its current window, rounded down. */
export function rest(device: Device | null, registry: Registry, group: string, now: number) {
  const caps = registry.groups[group]!;
  if (!device?.product) { // nobody agreed yet
    return Math.min(caps.window_epsilon, caps.lifetime_epsilon, registry.lifetime);
  }
  const end = ending(now, caps.window);
  const { life, window } = budget(device, registry, group, end);
  const inWindow = window + setAside(device, registry, group, end);
  return rounded(life < inWindow ? life : inWindow);
}

const span = (seconds: number): string => {
  const [size, unit] = ([[DAY, "day"], [3600, "hour"], [60, "minute"]] as const).find(
    ([length]) => seconds % length === 0,
  ) ?? [1, "second"];
  const count = seconds / size;
  return count === 1 ? unit : `${count} ${unit}s`;
};

const percent = (share: number): string => `${Math.ceil(1000 * share) / 10} %`;

const MEMOISED: Record<string, string> = {
  "": "Every report has fresh noise, and what several tell adds up.",
  epoch: "Reports of an epoch are about one value, and all tell up to epsilon ",
  "per-value": "Reports of a value share a randomised response, and all tell up to epsilon ",
};

export function inText({ product, consent, questions, groups, problems }: Explanation): string {
  const lines = [`What ${product} may send from here. Your consent: ${consent}.`, ""];
  for (const q of questions) {
    const most = q.presence === "hidden" ? "exactly" : "at most";
    lines.push(
      `${q.name}: ${q.description}`,
      `  ${most} ${q.reports} ${q.reports === 1 ? "report" : "reports"} each ${span(q.window)}, ` +
        `until ${q.expires}, each randomised before it is kept (epsilon ${q.epsilon}).`,
      `  Who believed in an answer of yours with 50 % believes it with at most ` +
        `${percent(q.belief)} after one report. ${MEMOISED[q.memoise]}` +
        (q.memoise && `${q.charged}.`),
    );
    if (q.belief >= 0.999) {
      lines.push(
        `  Epsilon ${q.epsilon} is no protection on its own; what protects then is only that nobody ` +
          "knows which reports are yours.",
      );
    } else if (!q.memoise) {
      lines.push(
        `  To be right ${100 * CERTAINTY} times in 100 takes at least ${q.linked} of your reports ` +
          "about one answer, and somebody who knows that they are yours.",
      );
    }
    if (q.memoise === "per-value") {
      lines.push(
        "  When a value changes is not covered: one report about a value that changes can tell up " +
          `to epsilon ${q.changing < Infinity ? q.changing : "unlimited"}.`,
      );
    }
  }
  for (const group of groups) {
    lines.push(
      `${group.name}: at most epsilon ${group.windowEpsilon} each ${span(group.window)} (UTC), ` +
        `${group.dayEpsilon} in any 24 hours, ${group.lifetimeEpsilon} per stored site data` +
        `${group.isConditional ? ", as long as nobody learns when a value changes" : ""}; ` +
        `${group.remaining} is left now.`,
    );
  }
  for (const [name, why] of Object.entries(problems)) lines.push(`${name}: never sent, ${why}.`);
  lines.push(
    "",
    "Names and versions of questions, and how many reports of each, leave in the clear: days can " +
      "be linked by that alone.",
    "No epsilon here covers that you take part, when your device sends, and from which address; " +
      "nor what your other browsers and devices send, each with allowances of its own. Clearing " +
      "this site's data deletes what waits, and begins new allowances.",
  );
  return lines.join("\n");
}
