// Simulated browsers that send to a real collector: node test/send.mjs COLLECTOR METRICS BROWSERS EACH
// Prints what the collector acknowledged and what was recorded, by metric and value.

import { readFileSync } from "node:fs";
import { Client, memoryStorage } from "../dist/index.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

const [collector, metrics, browsers, each] = process.argv.slice(2);
const registry = JSON.parse(readFileSync(metrics, "utf8"));
const VALUES = ["Oslo", "Oslo", "Oslo", "Bergen", "Bergen", "Hell"];
const recorded = {};
let acknowledged = 0;

for (let number = 0; number < Number(browsers); number += 1) {
  let hours = -2;
  const client = new Client({
    ...{ registry, collector, mechanisms: everyMechanism, storage: memoryStorage(), jitter: 0 },
    clock: () => Date.now() + 3_600_000 * hours,
  });
  await client.grant();
  for (const metric of Object.keys(registry.metrics)) {
    for (let i = 0; i < Number(each); i += 1) {
      const value = VALUES[(number + i) % VALUES.length];
      const answer = await client.record(metric, value);
      if (!answer.recorded) throw new Error(answer.details);
      (recorded[metric] ??= {})[value] = (recorded[metric][value] ?? 0) + 1;
    }
  }
  hours = 0;
  const uploaded = await client.upload();
  if (uploaded.why) throw new Error(uploaded.why);
  acknowledged += uploaded.acknowledged;
  await client.close();
}
console.log(JSON.stringify({ acknowledged, recorded }));
