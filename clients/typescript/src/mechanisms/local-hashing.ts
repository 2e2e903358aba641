// Local hashing: any text, as one bucket of one row.

import type { Mechanism } from "../encoder.js";
import { index } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { hashed, type Sketch } from "./sketches.js";

export const localHashing: Mechanism = {
  name: "local-hashing",
  id: 10,
  parts: (p: Sketch & { buckets: number }) => [
    index(hashed(p, p.buckets), answers(exact(p.epsilon), BigInt(p.buckets - 1))),
  ],
};
