// Several metrics in one report: one report of each, about its own value.

import { mechanismOf, type Mechanism, type Mechanisms, type Parameters } from "../encoder.js";
import type { Part } from "../kinds.js";
import { refuse } from "../values.js";

export const joint: Mechanism = {
  name: "joint",
  id: 32,
  parts: ({ of }: { of: Parameters[] }, mechanisms: Mechanisms) =>
    of.map((parameters, i): Part => {
      const [part] = mechanismOf(parameters, mechanisms).parts(parameters, mechanisms) as [Part];
      const { memory: _, ...fresh } = part;
      return {
        ...fresh,
        touches: (value, row, bits) =>
          Array.isArray(value) && value.length === of.length
            ? part.touches(value[i], row, bits)
            : refuse(`a value must be a list of ${of.length}`),
      };
    }),
};
