// Count-mean sketch: any text, as noisy bits of one row.

import type { Mechanism } from "../encoder.js";
import { bits } from "../kinds.js";
import { exact, symmetric } from "../probability.js";
import { hashed, type Sketch } from "./sketches.js";

export const cms: Mechanism = {
  name: "cms",
  id: 3,
  parts: (p: Sketch & { width: number }) => [
    bits(hashed(p, p.width), symmetric(exact(p.epsilon) / 2n)),
  ],
};
