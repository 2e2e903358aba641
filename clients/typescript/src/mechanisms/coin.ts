// Warner's coin: "yes" or "no".

import type { Mechanism } from "../encoder.js";
import { bits } from "../kinds.js";
import { bitwise, exact, UNIT } from "../probability.js";
import { ONE } from "../randomness.js";
import { place } from "../values.js";

export const coin: Mechanism = {
  name: "coin",
  id: 1,
  parts(p: { alpha: number; beta: number }) {
    const [truth, lie] = [exact(p.alpha) * UNIT, (UNIT - exact(p.alpha)) * exact(p.beta)];
    const all = UNIT * UNIT;
    const channel = bitwise((ONE * (truth + lie)) / all, (ONE * lie + all - 1n) / all, 1, 0);
    const touches = (value: unknown) => (place(["yes", "no"], value as string) ? [] : [0]);
    return [bits({ rows: 1, columns: 1, touches }, channel)];
  },
};
