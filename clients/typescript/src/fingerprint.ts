// The fingerprint of a mechanism: a hash of its parameters in one form of JSON (section 8).

import { toHex, utf8 } from "./bytes.js";
import { blake2b } from "./hashing.js";

/** The parameters of a mechanism, with its name. */
export interface Parameters {
  readonly mechanism: string;
  readonly [name: string]: unknown;
}

const NUMBERS = new Set(
  "alpha beta bounds epsilon f fragment_epsilon lifetime_epsilon magnitudes p q".split(" "),
);

/** As Python writes it. */
const double = (x: number): string =>
  x !== 0 && Math.abs(x) < 0.0001
    ? x.toExponential().replace(/-(.)$/, "-0$1")
    : `${x}`.replace(/^-?\d+$/, "$&.0");

const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;

function form(x: unknown, isDouble: boolean): string {
  if (Array.isArray(x)) return `[${x.map((y) => form(y, isDouble))}]`;
  if (typeof x === "number" && isDouble) return double(x);
  return typeof x === "object" && x
    ? oneForm(x as Parameters)
    : JSON.stringify(x).replace(/[^ -~]/g, escaped);
}

function oneForm(parameters: Parameters): string {
  const names = Object.keys(parameters).sort();
  const pairs = names.map((name) => `"${name}":${form(parameters[name], NUMBERS.has(name))}`);
  return `{${pairs}}`;
}

export const fingerprint = (parameters: Parameters): string =>
  toHex(blake2b("ldp mechanism v1", 8, utf8(oneForm(parameters))));
