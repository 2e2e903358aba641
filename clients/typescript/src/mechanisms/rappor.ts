// RAPPOR: a noisy Bloom filter of any text, or of listed answers, in two steps.

import { md5 } from "@noble/hashes/legacy.js";
import { concat, range, toBytes } from "../bytes.js";
import { cityHash } from "../cityhash.js";
import type { Mechanism } from "../encoder.js";
import { bits, type Columns, type Value } from "../kinds.js";
import { bitRatio, exact, UNIT } from "../probability.js";
import { type BitSource, ONE } from "../randomness.js";
import { bytesOf, setColumns } from "../values.js";
import { type Filter, filterColumns } from "./bloom.js";
import { cppMemory } from "./rappor-cpp.js";
import { bitMemory, inTwoSteps } from "./two-steps.js";

interface Rappor extends Filter {
  f: number;
  p: number;
  q: number;
  scheme: string;
  categories: string[];
  permanent: string;
  at_most?: number;
}

/** Numbers of `length` bytes of the MD5 of cohort and value. */
const md5Columns = (p: Rappor, cohort: number, value: Value, length: number, isBig: boolean) => {
  const hash = md5(concat(toBytes(cohort, 4).reverse(), bytesOf(value)));
  return range(p.hashes).map((i) => {
    const own = hash.slice(i * length, (i + 1) * length);
    const number = (isBig ? own : own.reverse()).reduce((n, byte) => n * 256 + byte, 0);
    return number % p.bits;
  });
};

const SCHEMES: Record<string, (p: Rappor) => (value: Value, row: number, b: BitSource) => Columns> =
  {
    polynomial: (p) => (value, row) => filterColumns(p, row, bytesOf(value)),
    identity: (p) => setColumns(p.categories, p.at_most),
    "rappor-md5-1byte": (p) => (value, row) => md5Columns(p, row, value, 1, true),
    "rappor-md5-le": (p) => (value, row) =>
      md5Columns(p, row, value, p.bits > 65536 ? 3 : p.bits > 256 ? 2 : 1, false),
    "rappor-md5-be16": (p) => (value, row) => md5Columns(p, row, value, 2, true),
    "chromium-city64": (p) => (value, row) =>
      range(p.hashes).map((i) => {
        const hash = cityHash(bytesOf(value), row * p.hashes + i);
        return Number(BigInt.asUintN(32, hash)) % p.bits;
      }),
  };

export const rappor: Mechanism = {
  name: "rappor",
  id: 5,
  parts(p: Rappor) {
    const scheme = SCHEMES[p.scheme];
    if (!scheme) throw new RangeError(`RAPPOR has no scheme ${p.scheme}`);
    if (![p.f, p.p, p.q].every((x) => x >= 0 && x <= 1)) throw new RangeError("f, p, q: 0 to 1");
    if (p.at_most !== undefined && !(Number.isInteger(p.at_most) && p.at_most > 0)) {
      throw new RangeError("at_most is a whole number above 0");
    }
    const [lie, low, high] = [p.f / 2, p.p, p.q].map((x) => (ONE * exact(x)) / UNIT) as
      [bigint, bigint, bigint];
    const mixed = (mostly: bigint, seldom: bigint) => mostly * (ONE - lie) + seldom * lie;
    const [touched, untouched] = [mixed(high, low), mixed(low, high)];
    const most = p.scheme === "identity" ? (p.at_most ?? 1) : p.hashes;
    const differing = [most, Math.min(most, p.bits - most)] as const;
    const channel = {
      ...{ touched: touched / ONE, untouched: untouched / ONE, told: touched / ONE },
      ratio: bitRatio(touched, untouched, ONE * ONE, ...differing),
    };
    const part = bits({ rows: p.cohorts, columns: p.bits, touches: scheme(p) }, channel);
    const lifetimeRatio = bitRatio(ONE - lie, lie, ONE, ...differing);
    const twice = inTwoSteps(part, bitMemory(lifetimeRatio, p.bits, ONE - lie, low, high));
    const { memory, ...fresh } = twice;
    if (p.permanent === "keyed") return [twice];
    if (p.permanent === "rappor-cpp") return [{ ...fresh, memory: { ...memory!, keyed: cppMemory(p) } }];
    return [fresh]; // the responses of google/rappor's Java and Python clients are not memoised here
  },
};
