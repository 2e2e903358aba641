// What sketches share: a value touches one column of each row, by the row's hash function.

import { column } from "../hashing.js";
import type { Shape, Value } from "../kinds.js";
import { bytesOf } from "../values.js";

export interface Sketch {
  rows: number;
  seed: string;
  epsilon: number;
}

export const hashed = ({ rows, seed }: Pick<Sketch, "rows" | "seed">, columns: number): Shape => ({
  ...{ rows, columns },
  touches: (value: Value, row: number) => [column(seed, columns, row, bytesOf(value))],
});
