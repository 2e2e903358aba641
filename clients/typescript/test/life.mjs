// A device that records and uploads until it is killed: node test/life.mjs FILE INBOX SEED_DAY
// Each batch that is delivered is a line of INBOX, synced before it is acknowledged.

import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { Client } from "../dist/index.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { sqliteStorage } from "../dist/storage/sqlite.js";
import { DAY, lastingRegistry } from "./devices.mjs";

const [file, inbox, first] = process.argv.slice(2);
let now = Number(first) * DAY;
const handle = openSync(inbox, "a");
const client = new Client({
  ...{ registry: lastingRegistry(), mechanisms: everyMechanism, storage: sqliteStorage(file) },
  ...{ jitter: 0, clock: () => 1000 * now },
  collector: {
    async send(body) {
      writeSync(handle, `${Buffer.from(body).toString("hex")}\n`);
      fsyncSync(handle);
      return 0;
    },
  },
});
await client.grant();
process.stdout.write("ready\n");
for (let step = 0; step < 400; step += 1) {
  await client.record("city", "Oslo");
  await client.record("word", `word ${step}`);
  await client.upload();
  now += DAY / 4;
}
closeSync(handle);
