// Sentence 10: a crash before or after any transaction, and around any delivery, can only have
// charged too much; nothing sealed is lost, sent under other bytes, or charged twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, registry } from "./devices.mjs";
import { check } from "./invariants.mjs";

/** A storage and an inbox that end the process, as far as the client can see, at event `fatal`. */
function crashing(storage, inbox, fatal) {
  let events = 0;
  const at = () => {
    events += 1;
    if (events >= fatal) throw new Error("crash"); // nothing works any more until the restart
  };
  return {
    get device() { return storage.device; },
    async transaction(work, durable) {
      at();
      const result = await storage.transaction(work, durable);
      at();
      return result;
    },
    alone: (work) => storage.alone(work),
    close() {},
    destination: {
      async send(body) {
        at();
        const refused = await inbox.send(body);
        at();
        return refused;
      },
    },
    get hasCrashed() { return events >= fatal; },
  };
}

async function live(device, days) {
  for (let day = 0; day < days; day += 1) {
    for (const [metric, value] of [
      ["city", "Oslo"], ["word", "snow"], ["theme", "dark"], ["font", "serif"], ["smile", "good"],
    ]) await device.client.record(metric, value);
    await device.client.upload();
    device.sleep(1);
  }
}

test("10 a crash at any moment loses nothing sealed, and nothing is charged twice", async () => {
  let crashes = 0;
  for (let fatal = 1; ; fatal += 1) {
    const device = new Device();
    await device.client.grant();
    const { storage } = device.options;
    const broken = crashing(storage, device.inbox, fatal);
    device.restart({ storage: broken, collector: broken.destination });
    await live(device, 2);
    if (!broken.hasCrashed) break;
    crashes += 1;
    device.restart({ storage });
    await live(device, 2);
    device.sleep(1);
    await device.client.upload();
    check(device.document, device.inbox.batches, registry());
    assert.equal((await device.client.status()).waiting, 0);
  }
  assert.ok(crashes > 40, `${crashes}`);
});

test("twin: a charge that is lost is caught", async () => {
  const device = new Device();
  await device.client.grant();
  await live(device, 3);
  check(device.document, device.inbox.batches, registry());
  const account = device.document.accounts.find(({ metric }) => metric === "city");
  account.recent = account.recent.slice(4);
  assert.throws(() => check(device.document, device.inbox.batches, registry()));
});
