// Hadamard count-mean sketch: any text, as one sign.

import type { Mechanism } from "../encoder.js";
import { sign } from "../kinds.js";
import { answers, exact } from "../probability.js";
import { ONE } from "../randomness.js";
import { hashed, type Sketch } from "./sketches.js";

export const hcms: Mechanism = {
  name: "hcms",
  id: 6,
  parts: (p: Sketch & { width: number }) => [
    sign(hashed(p, p.width), { ...answers(exact(p.epsilon), 1n), untouched: ONE / 2n }),
  ],
};
