// Times of one report, in microseconds, medians of 9 rounds: node test/times.mjs

import { Encoder, systemBits } from "../dist/encoder.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

const SEED = "00ff";
const MECHANISMS = [
  { mechanism: "rr", categories: ["a", "b", "c", "d"], epsilon: 2 },
  { mechanism: "cms", epsilon: 4, rows: 65_536, width: 1024, seed: SEED },
  { mechanism: "local-hashing", epsilon: 2, rows: 1024, buckets: 8, seed: SEED },
];
const ROUNDS = 9;
const REPORTS = 500;

const bits = systemBits();
for (const parameters of MECHANISMS) {
  const encoder = new Encoder(parameters, everyMechanism);
  const times = Array.from({ length: ROUNDS }, () => {
    const start = performance.now();
    for (let i = 0; i < REPORTS; i += 1) encoder.encode("a", bits);
    return ((performance.now() - start) / REPORTS) * 1000;
  });
  const median = times.sort((a, b) => a - b)[(ROUNDS - 1) / 2];
  console.log(`${median.toFixed(1)} µs: ${parameters.mechanism}`);
}
