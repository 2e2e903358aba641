// Encoders that break their promise, each in one way: `ldp audit` must catch every one.
// node test/mutants.mjs NAME reads and answers lines as dist/encode-lines.js does.

import { encodeLines } from "../dist/encode-lines.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { bitsFrom, ONE, systemBits } from "../dist/randomness.js";

/** All mechanisms, with other parts. */
const altered = (change) =>
  everyMechanism.map((mechanism) => ({
    ...mechanism,
    parts: (...given) => mechanism.parts(...given).map((part) => ({ ...part, ...change(part) })),
  }));

const MUTANTS = {
  honest: () => [everyMechanism, systemBits()],
  // the first touched bit is always reported
  unnoisedBit: () => [
    altered((part) => ({
      draw: (columns, bits) => part.draw(columns, bits) | (1n << BigInt(columns[0])),
    })),
    systemBits(),
  ],
  // a report is drawn by a float of 2 bits that stands for the threshold
  floatThreshold: () => [
    altered((part) => ({
      draw(columns, bits) {
        const told = Math.round(4 * (Number(part.told) / Number(ONE))) / 4;
        if (Number(bits.draw(32)) / 2 ** 32 < told) return BigInt(columns[0]);
        const other = Number(bits.draw(32)) % (part.columns - 1);
        return BigInt(other + Number(other >= columns[0]));
      },
    })),
    systemBits(),
  ],
  // one block of random bytes is read again and again
  reusedBlock: () => {
    const block = crypto.getRandomValues(new Uint8Array(4096));
    return [everyMechanism, bitsFrom(() => block.slice())];
  },
};

await encodeLines(...MUTANTS[process.argv[2]]());
