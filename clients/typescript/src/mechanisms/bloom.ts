// Bloom filters: the columns of several hash functions of one cohort.

import { range } from "../bytes.js";
import { column } from "../hashing.js";

export interface Filter {
  bits: number;
  hashes: number;
  cohorts: number;
  seed: string;
}

export const filterColumns = (p: Filter, cohort: number, bytes: Uint8Array): number[] =>
  range(p.hashes).map((i) => column(p.seed, p.bits, cohort * p.hashes + i, bytes));
