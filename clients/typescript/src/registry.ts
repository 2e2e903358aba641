// The registry as JSON (docs/wire.md, section 13): what is asked, and what it may cost.

import { sha256 } from "@noble/hashes/sha2.js";
import { bare, toHex } from "./bytes.js";
import { Encoder, type Mechanisms, type Parameters, type Value } from "./encoder.js";
import { modeOf } from "./modes.js";
import { exact, isWithin } from "./probability.js";
import { limited } from "./sending.js";

export interface Caps {
  /** In seconds, like every length of time here. */
  readonly window: number;
  readonly window_epsilon: number;
  readonly lifetime_epsilon: number;
  readonly report_epsilon?: number;
}

export interface Group extends Caps {
  readonly lateness: number;
}

/** With the loose types that an import of JSON has; `checked` declines what does not hold. */
interface MetricDocument {
  readonly version: number;
  readonly group: string;
  readonly description: string;
  readonly expires: string;
  readonly reports_per_window: number;
  readonly memoise?: string;
  readonly epoch?: number;
  readonly presence: string;
  readonly none?: Value;
  readonly cleans?: boolean;
  readonly other?: string;
  readonly of?: readonly string[];
  readonly mechanism: Parameters;
  readonly fingerprint: string;
  readonly thresholds: readonly { touched: string; untouched: string }[];
  readonly epsilon: number;
  readonly price: number;
  readonly changing_per_value?: number;
}

export interface RegistryDocument {
  readonly format: number;
  readonly product: {
    readonly name: string;
    readonly lifetime_epsilon?: number;
    readonly development?: boolean;
    readonly sealing_keys?: readonly string[];
  };
  readonly groups: Readonly<Record<string, Group>>;
  readonly metrics: Readonly<Record<string, MetricDocument>>;
}

export interface Metric extends MetricDocument {
  readonly name: string;
  readonly encoder: Encoder;
  /** What reports depend on: those of one meaning are never sent under another. */
  readonly meaning: string;
  /** One charge, in 1 / UNIT. */
  readonly cost: bigint;
}

/** Error: the registry is not what the app bundled or pinned, or says what does not hold. */
export class RegistryError extends Error {}

export class Registry {
  readonly product: string;
  /** Whether it is for a developer's own screen: its reports stay on this machine. */
  readonly isDevelopment: boolean;
  /** Cap of all groups together, or infinity. */
  readonly lifetime: number;
  readonly groups: Readonly<Record<string, Group>>;
  readonly metrics: Readonly<Record<string, Metric>>;
  /** Why a metric is never recorded, by name. */
  readonly problems: Readonly<Record<string, string>>;

  /** Raises RegistryError for a document that is not a registry. */
  constructor(document: RegistryDocument, mechanisms: Mechanisms) {
    if (document?.format !== 1) throw new RegistryError("not a registry of format 1");
    this.product = document.product.name;
    this.isDevelopment = document.product.development ?? false;
    this.lifetime = document.product.lifetime_epsilon ?? Infinity;
    this.groups = bare(document.groups);
    const metrics = bare<Metric>();
    const problems = bare<string>();
    for (const [name, metric] of Object.entries(document.metrics)) {
      try {
        if (document.product.sealing_keys?.length) {
          throw new RegistryError("its reports are sealed, which this client cannot do");
        }
        metrics[name] = checked(name, metric, this.groups, mechanisms);
      } catch (error) {
        problems[name] = (error as Error).message;
      }
    }
    this.metrics = metrics;
    this.problems = problems;
  }

  metricsOf(group: string): Metric[] {
    return Object.values(this.metrics).filter((metric) => metric.group === group);
  }

  groupOf(metric: string): string {
    return this.metrics[metric]?.group ?? "";
  }

  isHidden(group: string): boolean {
    return this.metricsOf(group).some(({ presence }) => presence === "hidden");
  }

  /** What every window of a group reserves for its metrics memoised by epoch. */
  setAside(group: string, day: string): bigint {
    const reserved = this.metricsOf(group).filter(({ epoch, expires }) => epoch && expires >= day);
    return reserved.reduce((sum, { cost }) => sum + cost, 0n);
  }

  /** The value to encode: cleaned, or `other`. What is no value of the metric stays as it is. */
  cleaned(metric: Metric, value: Value): Value {
    if (!Array.isArray(value)) return cleanedText(metric, value);
    if ("by" in metric.mechanism) {
      return [cleanedText(metric, value[0]), ...value.slice(1).map(number)];
    }
    const members = metric.of?.map((name) => this.metrics[name]!);
    return members?.length === value.length
      ? value.map((part, i) => this.cleaned(members[i]!, part))
      : value.map((answer) => cleanedText(metric, answer));
  }
}

function checked(
  name: string,
  document: MetricDocument,
  groups: Readonly<Record<string, Group>>,
  mechanisms: Mechanisms,
): Metric {
  const require = (holds: unknown, why: string) => {
    if (!holds) throw new RegistryError(why);
  };
  require(groups[document.group], "its group is missing");
  require(modeOf(document), "its mode or relay is not known here");
  const encoder = new Encoder(document.mechanism, mechanisms);
  require(encoder.fingerprint === document.fingerprint, "its fingerprint is not its mechanism's");
  const thresholds = encoder.parts.map(({ touched, untouched }) => [touched, untouched]);
  const stated = document.thresholds.map((t) => [BigInt(t.touched), BigInt(t.untouched)]);
  require(`${thresholds}` === `${stated}`, "its thresholds are not its mechanism's");
  require(isWithin(encoder.ratio, document.epsilon), "a report tells more than its epsilon");
  const { lifetimeRatio } = encoder;
  const isPaid = document.memoise
    ? lifetimeRatio && isWithin(lifetimeRatio, document.price)
    : document.price >= document.epsilon;
  require(isPaid, "it is charged less than it tells");
  const { memoise = "", epoch = "", presence } = document;
  const meaning = [encoder.fingerprint, memoise, epoch, presence].join(" ");
  return { ...document, name, encoder, meaning, cost: exact(document.price) };
}

/** A value, below all bounds where it is not a number. */
const number = (value: Value): Value => (Number.isNaN(value) ? -Infinity : value);

function cleanedText(metric: Metric, value: Value): Value {
  const isText = metric.other ?? metric.cleans;
  if (isText && value instanceof Uint8Array) value = new TextDecoder().decode(value);
  if (typeof value !== "string") return number(value);
  value = value.replace(/\p{Cs}/gu, "\ufffd");
  const { alphabet, length } = metric.mechanism as { alphabet?: string; length?: number };
  if (metric.cleans && alphabet) {
    const word: string[] = [];
    for (const letter of value.normalize("NFC")) {
      if (word.push(...letters(letter, alphabet)) >= length!) break; // a long text takes no time
    }
    return word.slice(0, length).join("");
  }
  const { categories, by = categories } = metric.mechanism as Record<string, string[] | undefined>;
  return by?.includes(value) ? value : (metric.other ?? value);
}

/** The letters of the alphabet that stand for a letter: itself, its lower case, its base. */
function letters(letter: string, alphabet: string): string[] {
  // case folding: the dotless i stays, "ß" becomes "ss"
  const lower = letter === "ı" ? letter : letter.toLowerCase().toUpperCase().toLowerCase();
  for (const form of [letter, lower, lower.normalize("NFKD")]) {
    const known = [...form].filter((part) => alphabet.includes(part));
    if (known.length) return known;
  }
  return [];
}

/** Fetch a registry whose bytes have this SHA-256; throws RegistryError for any others. */
export async function fetchRegistry(
  url: string,
  pin: string,
  stop?: AbortSignal,
): Promise<RegistryDocument> {
  try {
    // any copy will do whose digest is right
    for (const cache of ["force-cache", "no-cache"] as const) {
      const response = await fetch(url, {
        ...{ redirect: "error", credentials: "omit", referrerPolicy: "no-referrer", cache },
        signal: limited(stop),
      });
      const body = new Uint8Array(await response.arrayBuffer());
      if (toHex(sha256(body)) === pin) return JSON.parse(new TextDecoder().decode(body));
    }
  } catch {
    throw new RegistryError("the registry cannot be reached from this origin");
  }
  throw new RegistryError("the registry has another SHA-256");
}
