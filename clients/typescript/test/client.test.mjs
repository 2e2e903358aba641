// The numbered sentences of docs/device-protocol.md that hold in a browser: each names its test here.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { unpackBatch } from "../dist/batch.js";
import { Client, indexedDbStorage, memoryStorage, StorageError, Unreachable } from "../dist/index.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { Registry } from "../dist/registry.js";
import { localHashing } from "../dist/mechanisms/local-hashing.js";
import { rr } from "../dist/mechanisms/rr.js";
import { copied } from "../dist/values.js";
import { DAY, Device, Inbox, lastingRegistry, publicRegistry, registry } from "./devices.mjs";

const yes = { recorded: true };

/** A registry whose group of settings has a life of 8, and no other metric that is granted some. */
function tight() {
  const document = publicRegistry();
  delete document.metrics.theme;
  document.groups.settings.lifetime_epsilon = 8;
  return document;
}

async function granted(options) {
  const device = new Device(options);
  assert.equal(await device.client.grant(), true);
  return device;
}

test("1 before consent nothing is written, recorded or sent", async () => {
  const device = new Device();
  assert.equal((await device.client.record("city", "Oslo")).reason, "consent");
  assert.equal((await device.client.upload()).why, "consent");
  assert.equal((await device.client.status()).consent, "unknown");
  assert.equal(device.document, null);
  assert.deepEqual(device.inbox.tries, []);
});

test("1 before consent, and after a withdrawal, nobody is asked for the registry", async () => {
  const before = globalThis.fetch;
  const text = JSON.stringify(publicRegistry());
  const registrySha256 = createHash("sha256").update(text).digest("hex");
  let requests = 0;
  globalThis.fetch = async () => {
    requests += 1;
    return new Response(text);
  };
  const options = { registry: "https://x.example/v1/registry.json", registrySha256 };
  const device = new Device(options);
  const ask = async (client) => [
    await client.status(), await client.record("city", "Oslo"), await client.upload(),
    await client.remaining(), await client.pending(), await client.sent(),
  ].slice(3);
  assert.deepEqual([await ask(device.client), requests], [[{}, [], []], 0]);
  await device.client.grant();
  await device.client.record("city", "Oslo");
  device.sleep(1);
  await device.client.record("city", "Oslo");
  device.restart();
  assert.equal((await device.client.pending()).length, 1);
  assert.equal(requests, 2);
  device.restart();
  await device.client.withdraw();
  const [remaining, pending, [sent]] = await ask(device.client);
  assert.deepEqual([remaining, pending, sent.state, requests], [{}, [], "withdrawn", 2]);
  globalThis.fetch = before;
});

test("2 a withdrawal deletes what waits and keeps what was spent", async () => {
  const device = await granted();
  await device.client.record("city", "Oslo");
  await device.client.record("font", "serif");
  device.sleep(1);
  await device.client.record("city", "Oslo"); // seals the day before
  const spent = structuredClone(device.charged);
  assert.ok(spent.length > 0);
  assert.equal(await device.client.withdraw(), true);
  assert.deepEqual(device.document.periods, []);
  assert.equal(device.document.secret, null);
  assert.ok(device.document.batches.every(({ body, state }) => !body && state === "withdrawn"));
  assert.equal((await device.client.upload()).why, "consent");
  await device.client.grant();
  await device.client.upload();
  assert.deepEqual(device.charged, spent);
  assert.deepEqual(device.inbox.items, []);
});

test("2 a withdrawal that cannot be written down holds all the same", async () => {
  const device = await granted();
  await device.client.record("city", "Oslo");
  device.sleep(1);
  const { storage } = device.options;
  const { transaction } = storage;
  storage.transaction = async () => { throw new StorageError("the disk is full"); };
  assert.equal(await device.client.withdraw(), false);
  storage.transaction = transaction;
  assert.equal((await device.client.upload()).why, "consent");
  assert.deepEqual(device.inbox.items, []);
  assert.equal(device.document.consent, "withdrawn");
});

test("2 a withdrawal holds that was made while a consent was being written down", async () => {
  const before = globalThis.fetch;
  const text = JSON.stringify(registry());
  const registrySha256 = createHash("sha256").update(text).digest("hex");
  globalThis.fetch = async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return new Response(text);
  };
  for (const options of [{}, { registry: "https://x.example/v1/registry.json", registrySha256 }]) {
    const device = new Device(options);
    const granting = device.client.grant();
    assert.equal(await device.client.withdraw(), true);
    assert.equal(await granting, false);
    assert.equal((await device.client.status()).consent, "withdrawn");
    assert.equal((await device.client.record("city", "Oslo")).reason, "consent");
    assert.equal(await device.client.grant(), true); // and a later consent holds again
    assert.deepEqual(await device.client.record("city", "Oslo"), yes);
  }
  globalThis.fetch = before;
});

test("a registry of another digest is named, and nothing is granted", async () => {
  const before = globalThis.fetch;
  globalThis.fetch = async () => new Response(JSON.stringify(registry()));
  const options = { registry: "https://x.example/v1/registry.json", registrySha256: "0".repeat(64) };
  const { client } = new Device(options);
  assert.equal(await client.grant(), false);
  const problem = "the registry has another SHA-256";
  assert.equal((await client.status()).registry, problem);
  assert.equal(await client.explain(), `What may be sent is not known: ${problem}.`);
  globalThis.fetch = before;
});

test("2 a withdrawal and close wait for a batch on its way, whatever was called since", async () => {
  for (const end of ["withdraw", "close"]) {
    const said = [];
    let begin;
    const isSending = new Promise((resolve) => { begin = resolve; });
    const collector = {
      async send() {
        begin();
        await new Promise((resolve) => setTimeout(resolve, 50));
        said.push("sent");
        return 0;
      },
    };
    const device = await granted({ registry: publicRegistry(), collector });
    await device.client.record("city", "Oslo");
    device.sleep(1);
    const uploading = device.client.upload();
    assert.equal((await device.client.upload()).why, "another tab uploads");
    await isSending;
    await device.client[end]();
    said.push(end);
    await uploading;
    assert.deepEqual(said, ["sent", end]);
  }
});

test("2 a withdrawal ends what is on its way to a collector that does not answer", async () => {
  const asked = [];
  const collector = {
    send: (body, signal) => new Promise((resolve, reject) => {
      asked.push(signal);
      if (!signal) reject(new Error("nothing ends this"));
      signal.addEventListener("abort", () => reject(signal.reason));
    }),
  };
  const device = await granted({ registry: publicRegistry(), collector });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  const uploading = device.client.upload();
  while (!asked.length) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.equal(await device.client.withdraw(), true);
  assert.equal((await uploading).why, "consent");
  assert.equal(device.document.failures, 0);
  assert.deepEqual(device.document.batches.map(({ state, body }) => [state, body]), [["withdrawn", null]]);
});

test("2 a withdrawal does not wait for a registry that does not arrive", async () => {
  const before = globalThis.fetch;
  const text = JSON.stringify(publicRegistry());
  const registrySha256 = createHash("sha256").update(text).digest("hex");
  const device = new Device({ registry: "https://x.example/v1/registry.json", registrySha256 });
  const asked = [];
  try {
    globalThis.fetch = async () => new Response(text);
    await device.client.grant();
    device.restart();
    globalThis.fetch = (url, { signal }) => new Promise((resolve, reject) => {
      asked.push(signal);
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    const uploading = device.client.upload();
    while (!asked.length) await new Promise((resolve) => setTimeout(resolve, 1));
    const withdrawing = device.client.withdraw();
    assert.equal(asked[0].aborted, true);
    assert.equal(await withdrawing, true);
    assert.equal((await uploading).why, "consent");
    assert.equal((await device.client.status()).registry, "");
  } finally {
    globalThis.fetch = before;
  }
});

test("2 a withdrawal holds that was made while a batch was being chosen", async () => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  const { storage } = device.options;
  const { transaction } = storage;
  let withdrawing;
  storage.transaction = async (work, durable) => {
    let chosen;
    const done = await transaction.call(storage, (kept) => {
      const answer = work(kept);
      chosen = answer.result?.body;
      return answer;
    }, durable);
    if (chosen) withdrawing ??= device.client.withdraw(); // after the read, before what follows it
    return done;
  };
  const { why } = await device.client.upload();
  assert.equal(await withdrawing, true);
  assert.deepEqual([why, device.inbox.tries.length], ["consent", 0]);
});

test("an upload that fails in storage says what is known: what it sent, and what waits", async () => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  const { storage } = device.options;
  const { transaction } = storage;
  device.inbox.send = async () => {
    storage.transaction = async () => { throw new StorageError("the disk is full"); };
    return 0;
  };
  const said = await device.client.upload();
  storage.transaction = transaction;
  assert.deepEqual(said, { acknowledged: 0, refused: 0, waiting: 1, why: "the disk is full" });
});

test("explain says how many linked reports tell an answer, and what a changing value tells", async () => {
  const document = registry();
  document.metrics.font.changing_per_value = 5.25;
  document.metrics.word.mechanism.epsilon = 3;
  const texts = [await new Device({ registry: document }).client.explain()];
  delete document.metrics.font.changing_per_value;
  texts.push(await new Device({ registry: document }).client.explain());
  texts.forEach((text, i) => {
    assert.match(text, /To be right 99 times in 100 takes at least 3 of your reports about one answer/);
    const changing = "one report about a value that changes can tell up to epsilon";
    assert.ok(text.includes(`When a value changes is not covered: ${changing} ${["5.25", "unlimited"][i]}.`));
    assert.match(text, /^settings: .* per stored site data, as long as nobody learns when a value changes;/m);
    assert.match(text, /^places: .* 64 per stored site data; /m);
    assert.match(text, /how many reports of each, leave in the clear: days can be linked by that alone\./);
    assert.doesNotMatch(text, /no protection on its own/);
  });
});

test("explain says what all reports of a memoised answer tell, and the cap of the device", async () => {
  const document = registry();
  document.product.lifetime_epsilon = 10.5;
  const text = await new Device({ registry: document }).client.explain();
  for (const { memoise, price } of Object.values(document.metrics)) {
    if (memoise) assert.ok(text.includes(`, and all tell up to epsilon ${price}.`));
  }
  assert.equal(text.match(/ and all tell up to/g).length, 3);
  assert.match(text, /^places: .* 10\.5 in any 24 hours, 10\.5 per stored site data; /m);
});

test("explain says that a large epsilon is no protection on its own", async () => {
  const document = registry();
  const { city } = document.metrics;
  city.epsilon = city.price = 8; // more than it tells: taken
  const text = await new Device({ registry: document }).client.explain();
  assert.match(text, /Epsilon 8 is no protection on its own; what protects then is only that nobody knows/);
});

test("2 a consent holds that was given while a withdrawal was being written down", async () => {
  const device = await granted();
  const [withdrawing, granting] = [device.client.withdraw(), device.client.grant()];
  assert.deepEqual([await withdrawing, await granting], [true, true]);
  assert.deepEqual(await device.client.record("city", "Oslo"), yes);
});

test("a cap that was raised or a metric that is new waits for a new consent", async () => {
  const device = await granted();
  const raised = registry();
  raised.groups.places.window_epsilon = 100;
  raised.groups.places.lifetime_epsilon = 1000;
  raised.metrics.novel = { ...raised.metrics.city };
  device.restart({ registry: raised });
  assert.deepEqual((await device.client.status()).unasked, ["places", "novel"]);
  assert.equal((await device.client.record("novel", "Oslo")).reason, "consent");
  for (let day = 0; day < 20; day += 1) {
    for (const _ of Array(3)) await device.client.record("city", "Oslo");
    await device.client.record("word", "snow");
    device.sleep(1);
  }
  await device.client.upload();
  assert.ok(Object.values(device.charges("places")).every((epsilon) => epsilon <= 8));
  const life = Object.values(device.charges("places")).reduce((a, b) => a + b, 0);
  assert.ok(life <= 64 && life > 60, `${life}`);
  assert.equal((await device.client.record("city", "Oslo")).reason, "consent");
  await device.client.grant();
  assert.deepEqual(await device.client.record("novel", "Oslo"), yes);
});

test("a registry whose reports are sealed is declined: this client would send in the clear", async () => {
  const { product, ...rest } = registry();
  const sealed = { ...rest, product: { ...product, sealing_keys: ["00".repeat(32)] } };
  const device = await granted({ registry: sealed });
  const { reason, details } = await device.client.record("city", "Oslo");
  assert.deepEqual([reason, details], ["registry", "its reports are sealed, which this client cannot do"]);
  device.sleep(1);
  await device.client.upload();
  assert.deepEqual(device.inbox.batches, []);
  assert.match(await device.client.explain(), /city: never sent, its reports are sealed/);
});

test("7 the document does not tell in which order first records were made", async () => {
  const keys = [];
  for (const names of [["city", "word"], ["word", "city"]]) {
    const device = await granted({ registry: publicRegistry() });
    for (const name of names) await device.client.record(name, "Oslo");
    keys.push(device.document.periods.map(({ metric, ends }) => `${metric} ${ends}`));
  }
  assert.deepEqual(keys[0], keys[1]);
});

test("status says why nothing leaves, and when something can", async () => {
  const device = await granted({ registry: publicRegistry() });
  const said = async () => {
    const { why, nextUpload } = await device.client.status();
    return [why, nextUpload];
  };
  assert.deepEqual(await said(), ["nothing is recorded that was not sent", null]);
  await device.client.record("city", "Oslo");
  const end = new Date(Date.UTC(2026, 10, 22));
  assert.deepEqual(await said(), ["what was recorded is sealed after its period", end]);
  device.sleep(1);
  assert.deepEqual(await said(), ["waits for upload(), which start() calls", null]);
  device.inbox.error = new Unreachable("no network", 60);
  await device.client.upload();
  const [why, next] = await said();
  assert.equal(why, "waits after a failure: no network");
  assert.ok(next.getTime() > 1000 * device.now - 1);
  await device.client.withdraw();
  assert.deepEqual(await said(), ["withdrawn", null]);
});

test("3 a period is sealed by the first call after its end, and charged at that end", async () => {
  const device = await granted();
  assert.deepEqual(await device.client.record("city", "Oslo"), yes);
  device.sleep(0.4);
  await device.client.upload();
  assert.deepEqual(device.document.batches, []);
  device.sleep(0.2);
  await device.client.record("city", "Oslo");
  assert.deepEqual(device.document.batches[0].reports, { city: 1 });
  assert.deepEqual(Object.keys(device.charges("places")), [`${Date.UTC(2026, 10, 22) / 1000}`]);
});

test("4 each period that was missed has a sample of its own", async () => {
  const device = await granted();
  device.restart({ collector: null });
  for (let day = 0; day < 5; day += 1) {
    await device.client.record("city", "Oslo");
    device.sleep(1);
  }
  await device.client.upload();
  assert.equal(Object.keys(device.charges("places")).length, 5);
});

test("5 a record that is not drawn is never encoded", async () => {
  let draws = 0;
  const counting = { ...rr, parts: (...given) => rr.parts(...given).map((part) => ({
    ...part, draw: (...rest) => { draws += 1; return part.draw(...rest); },
  })) };
  const device = await granted({ mechanisms: [counting, localHashing] });
  for (let i = 0; i < 200; i += 1) await device.client.record("city", "Oslo");
  const [{ records, pool }] = device.document.periods;
  assert.deepEqual([records, Object.keys(pool).length], [200, 2]);
  // expected 2 + 2 (H(200) - H(2)) = 10.8, standard deviation below 3.3: beyond 40 once in 1e9
  assert.ok(draws < 40, `${draws}`);
});

test("a damaged number of records stops no record", async () => {
  const device = new Device();
  await device.client.grant();
  for (let i = 0; i < 9; i += 1) await device.client.record("city", "Oslo");
  device.document.periods[0].records = 0;
  assert.deepEqual(await device.client.record("city", "Oslo"), yes);
});

test("6 early and late records are as likely to be sent", async () => {
  let first = 0;
  const runs = 100;
  const honest = { ...rr, parts: (...given) => rr.parts(...given).map((part) => ({
    ...part, draw: ([column]) => BigInt(column),
  })) };
  for (let run = 0; run < runs; run += 1) {
    const device = await granted({ mechanisms: [honest] });
    for (const city of ["Oslo", "Bergen", "Bergen", "Bergen"]) {
      await device.client.record("city", city);
    }
    const [{ pool }] = device.document.periods;
    first += Object.values(pool).filter(({ report }) => report.at(-1) === 0).length;
  }
  // 100 runs of probability 2/4: standard deviation 5, beyond 31 once in 1e9
  assert.ok(Math.abs(first - runs / 2) < 31, `${first}`);
});

test("7 the document holds no value and no time finer than a period", async () => {
  const device = await granted();
  for (const [metric, value] of [["city", "Oslo"], ["word", "snow"], ["font", "serif"]]) {
    await device.client.record(metric, value);
  }
  const text = JSON.stringify(device.document, (_, v) => (typeof v === "bigint" ? `${v}` : v));
  assert.ok(!/Oslo|snow|serif/.test(text));
  const times = text.match(/\b\d{10}\b/g).map(Number); // ten digits in a row of an id are no time
  assert.ok(times.length > 0 && times.every((time) => time % DAY === 0), `${times}`);
});

test("8 and 9 no window and no life holds more than its cap", async () => {
  const device = await granted();
  for (let day = 0; day < 60; day += 1) {
    for (const [metric, value] of [
      ["city", "Oslo"], ["city", "Hell"], ["city", "nowhere"], ["word", `w${day}`],
      ["theme", day % 2 ? "dark" : "light"], ["font", ["sans", "serif", "mono"][day % 3]],
      ["smile", "good"], ["visits", "yes"],
    ]) await device.client.record(metric, value);
    device.sleep(day % 7 === 3 ? 2 : 1);
    await device.client.upload();
  }
  for (const [group, caps] of Object.entries(registry().groups)) {
    const spent = Object.values(device.charges(group));
    assert.ok(spent.every((epsilon) => epsilon <= caps.window_epsilon), `${group}: ${spent}`);
    const life = spent.reduce((a, b) => a + b, 0);
    assert.ok(life <= caps.lifetime_epsilon && life > 0, `${group}: ${life}`);
  }
  assert.equal((await device.client.record("city", "Oslo")).reason, "cap");
  const paid = device.charged.filter(({ metric }) => metric === "city");
  const reports = device.inbox.items.filter(({ metric }) => metric === "city").length;
  assert.equal(paid.reduce((sum, { times }) => sum + times, 0), reports);
});

test("10 and 11 a retry repeats the batch byte for byte, and nothing is sent twice", async () => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  device.inbox.error = new Unreachable("no");
  assert.equal((await device.client.upload()).why, "no");
  let { why } = await device.client.upload();
  while (why === "no") ({ why } = await device.client.upload()); // it drew a wait of 0 seconds
  assert.equal(why, "waits after a failure");
  device.sleep(1);
  device.restart();
  device.inbox.error = null;
  assert.equal((await device.client.upload()).acknowledged, 1);
  assert.deepEqual(device.inbox.tries[0], device.inbox.tries[1]);
  assert.equal(device.document.batches[0].body, null);
  assert.equal((await device.client.upload()).acknowledged, 0);
  assert.equal(device.inbox.batches.length, 1);
});

test("10 a destination that does not say how many it refused did not take the batch", async () => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  for (const answer of [[], undefined, "0", -1, 0.5, { refused: [] }]) {
    device.restart({ collector: { send: async () => answer } });
    const { acknowledged, waiting, why } = await device.client.upload();
    assert.deepEqual([acknowledged, waiting], [0, 1]);
    assert.equal(why, "TypeError");
    device.sleep(0.5);
  }
  device.restart();
  assert.equal((await device.client.upload()).acknowledged, 1);
});

test("11 what was sent is said as long as it is kept", async () => {
  const device = await granted({ registry: publicRegistry(), keepSent: 3 });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  await device.client.upload();
  const said = async () => (await device.client.sent())[0];
  assert.match((await said()).statements[0].text, /^names "\w+" of 4 answers$/);
  assert.deepEqual([(await said()).state, await device.client.pending()], ["acknowledged", []]);
  device.sleep(4);
  await device.client.upload();
  assert.deepEqual((await said()).statements, []);
  await device.client.record("city", "Oslo");
  device.sleep(1);
  await device.client.upload();
  assert.equal((await device.client.sent())[1].statements.length, 1);
  assert.equal(await device.client.forget(), true);
  assert.ok(device.document.batches.every(({ body }) => !body));
});

test("12 batches that are too old are held until the clock is right", async () => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  device.inbox.error = new Unreachable("no");
  await device.client.upload();
  device.sleep(9);
  device.inbox.error = null;
  assert.deepEqual((await device.client.upload()).acknowledged, 0);
  const { held, waiting, dropped } = await device.client.status();
  assert.deepEqual([held, waiting, dropped], [1, 0, 0]);
  device.sleep(-8);
  assert.deepEqual((await device.client.upload()).acknowledged, 1);
});

test("12 a held batch is dropped after thirty later days, however many batches a day has", async () => {
  const document = lastingRegistry();
  for (const group of Object.values(document.groups)) group.window = DAY / 6;
  document.metrics = { city: document.metrics.city };
  const device = await granted({ registry: document });
  const send = async () => {
    await device.client.record("city", "Oslo");
    device.sleep(1 / 6);
    await device.client.upload();
  };
  device.inbox.error = new Unreachable("no");
  await send();
  device.sleep(20);
  device.inbox.error = null;
  const seen = [];
  for (let batch = 1; batch <= 6 * 60; batch += 1) {
    await send();
    if ([28, 32, 60].includes(batch / 6)) {
      const { held, dropped, acknowledged } = await device.client.status();
      seen.push([held, dropped, acknowledged, device.document.batches.length]);
    }
  }
  const listed = seen.map((counts) => counts.pop());
  assert.deepEqual(seen, [[1, 0, 168], [0, 1, 192], [0, 1, 360]]);
  assert.ok(Math.max(...listed) <= 120, `${listed}`); // a hundred, and one of earlier days
});

test("13 a batch waits at random, has one of a few sizes, and names no device", async () => {
  const device = await granted({ jitter: 3600 });
  for (let i = 0; i < 5; i += 1) await device.client.record("city", "Oslo");
  device.sleep(0.5);
  assert.equal((await device.client.upload()).why, "waits for its random moment");
  device.sleep(1 / 24);
  assert.equal((await device.client.upload()).acknowledged, 1);
  const [body] = device.inbox.batches;
  assert.equal(body.length, 1024);
  assert.equal(new DataView(body.buffer).getUint32(26, true), Date.UTC(2026, 10, 22) / 864e5);
});

test("13 failures are followed by longer random waits, and Retry-After is kept", async () => {
  const device = await granted();
  await device.client.record("city", "Oslo");
  device.sleep(1);
  device.inbox.error = new Unreachable("later", 5000);
  await device.client.upload();
  assert.ok(device.document.nextTry >= device.now + 5000);
  device.now = device.document.nextTry;
  device.inbox.error = new Unreachable("later");
  for (let failures = 2; failures < 12; failures += 1) {
    await device.client.upload();
    const bound = Math.min(6 * 3600, 60 * 2 ** failures);
    assert.equal(device.document.failures, failures);
    assert.ok(device.document.nextTry <= device.now + bound);
    device.now = Math.max(device.now, device.document.nextTry);
  }
});

test("14 an epoch tells of its first value and is charged once", async () => {
  const device = await granted();
  for (let day = 0; day < 8; day += 1) {
    await device.client.record("theme", day ? "light" : "dark");
    const [epoch] = device.document.epochs.filter(({ metric }) => metric === "theme");
    device.first ??= epoch.response;
    assert.deepEqual(epoch.response, device.first);
    device.sleep(1);
  }
  await device.client.upload();
  const charges = device.charged.filter(({ metric }) => metric === "theme");
  assert.deepEqual(charges.map(({ price, times }) => [price, times]), [[3, 1]]);
  assert.equal(device.inbox.items.filter(({ metric }) => metric === "theme").length, 8);
});

test("15 a value that returns costs nothing, and a new one is charged", async () => {
  const device = await granted();
  const days = ["sans", "sans", "serif", "sans", "serif"];
  for (const value of days) {
    await device.client.record("font", value);
    device.sleep(1);
  }
  await device.client.upload();
  const charges = device.charged.filter(({ metric }) => metric === "font");
  assert.equal(charges.reduce((sum, { times }) => sum + times, 0), 2);
  assert.equal(device.inbox.items.filter(({ metric }) => metric === "font").length, 5);
  assert.equal(device.document.tags.length, 2);
});

test("18 devices of one account give one response, in one product", async () => {
  const secret = new Uint8Array(32).fill(7);
  const tags = [];
  for (const own of [secret, secret, new Uint8Array(32).fill(8)]) {
    const device = await granted({ secret: own });
    await device.client.record("font", "serif");
    tags.push(device.document.periods[0].pool[0].tag);
    assert.equal(device.document.secret, null);
  }
  assert.equal(tags[0], tags[1]);
  assert.notEqual(tags[0], tags[2]);
});

test("what the app writes over after a call changes no record, no secret and no registry", async () => {
  const [document, secret, city] = [publicRegistry(), Buffer.alloc(32, 7), Buffer.from("Oslo")];
  const device = await granted({ registry: document, secret, bits: { draw: () => 0n } }); // the truth
  document.metrics.city.mechanism.categories.reverse();
  secret.fill(0);
  const recorded = device.client.record("city", city);
  city.write("Hell");
  await recorded;
  await device.client.record("font", "serif");
  const other = await granted({ registry: publicRegistry(), secret: Buffer.alloc(32, 7) });
  await other.client.record("font", "serif");
  const tag = ({ document }) => document.periods.find(({ metric }) => metric === "font").pool[0].tag;
  assert.equal(tag(device), tag(other));
  device.sleep(1);
  await device.client.upload();
  const { report } = device.inbox.items.find(({ metric }) => metric === "city");
  assert.equal(publicRegistry().metrics.city.mechanism.categories[report.at(-1)], "Oslo");
});

test("20 and 21 hidden: every period sends the same number, whatever was recorded", async () => {
  for (const records of [0, 1, 9]) {
    const device = await granted();
    device.sleep(1);
    for (let i = 0; i < records; i += 1) {
      assert.deepEqual(await device.client.record("smile", "good"), yes);
      assert.deepEqual(await device.client.record("visits", "yes"), yes);
    }
    assert.deepEqual(device.document.batches, []); // a hidden record seals nothing
    device.sleep(2);
    await device.client.upload();
    const counts = {};
    for (const { metric } of device.inbox.items) counts[metric] = (counts[metric] ?? 0) + 1;
    assert.deepEqual(counts, { smile: 6, visits: 3 });
    const charged = Object.entries(device.charges("mood")).map(([end, epsilon]) => epsilon);
    assert.deepEqual(charged, [6, 4, 4]);
  }
});

test("16 and 17 a metric stops for all values once a new one would not fit", async () => {
  const device = await granted({ registry: tight() });
  for (let day = 0; day < 12; day += 1) {
    await device.client.record("font", day % 2 ? "sans" : "serif");
    device.sleep(1);
    await device.client.upload();
  }
  const charges = device.charged.filter(({ metric }) => metric === "font");
  const times = charges.reduce((sum, charge) => sum + charge.times, 0);
  assert.equal(times, 2); // 3 each; a third would pass 8, and so no known value is sent either
  const sent = device.inbox.items.filter(({ metric }) => metric === "font").length;
  assert.equal(sent, 2);
  assert.equal((await device.client.record("font", "serif")).reason, "cap");
});

test("19 a record is never sent under another memoisation or fingerprint", async () => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("font", "serif");
  await device.client.record("city", "Oslo");
  const changed = publicRegistry();
  delete changed.metrics.font.memoise;
  changed.metrics.font.price = changed.metrics.font.epsilon;
  changed.metrics.city = { ...changed.metrics.city, version: 2 };
  device.restart({ registry: changed });
  device.sleep(1);
  await device.client.upload();
  assert.deepEqual(device.inbox.items, []);
  assert.deepEqual(device.charged, []);
});

test("22 hidden: the value of an epoch is drawn uniformly from the one before", async () => {
  let yes = 0;
  const runs = 60;
  const document = registry();
  for (let run = 0; run < runs; run += 1) {
    const device = await granted({ registry: document });
    for (const value of ["yes", "none", "none"]) await device.client.record("visits", value);
    const [next] = device.document.epochs;
    assert.equal(next.records, 3);
    assert.equal(next.charged, false);
    yes += Number(next.response.number === 1n);
  }
  // P(yes) = (1/3) 0.88 + (2/3) 0.12 = 0.37: mean 22, standard deviation 3.7, beyond 24 once in 1e9
  assert.ok(Math.abs(yes - 0.373 * runs) < 24, `${yes}`);
});

test("26 two clients of one storage share one pool and one budget", async () => {
  const device = await granted({ registry: publicRegistry() });
  const other = new Client(device.options);
  const both = [device.client, other];
  await Promise.all([...Array(20)].map((_, i) => both[i % 2].record("city", "Oslo")));
  assert.equal(device.document.periods[0].records, 20);
  device.sleep(1);
  await Promise.all(both.map((client) => client.upload()));
  assert.deepEqual(device.charged.map(({ times }) => times), [2]);
  assert.equal(device.inbox.batches.length, 1);
});

test("23 one reading of another year silences a device for two windows at most", async () => {
  for (const years of [-56, 9, 300]) {
    const device = await granted({ registry: lastingRegistry() });
    const sent = [];
    for (let day = 0; day < 8; day += 1) {
      await device.client.record("city", "Oslo");
      if (day === 3) {
        device.sleep(365 * years);
        await device.client.record("city", "Oslo");
        await device.client.upload();
        assert.equal((await device.client.status()).leap === null, years > 0);
        device.sleep(-365 * years);
      }
      device.sleep(1);
      await device.client.upload();
      sent.push(device.inbox.items.length);
    }
    assert.equal((await device.client.status()).leap !== null, years > 0);
    assert.ok(sent.slice(2).every((number, i) => number > sent[i]), `${sent}`);
  }
});

test("23 charges are forgotten by count, and what is forgotten is not charged again", async () => {
  const device = await granted({ registry: lastingRegistry() });
  const start = device.now;
  const live = async () => {
    await device.client.record("city", "Oslo");
    device.sleep(1);
    await device.client.upload();
  };
  for (let day = 0; day < 403; day += 1) await live();
  assert.equal(Object.keys(device.charges("places")).length, 400);
  const [{ times, forgotten }, ...others] = device.document.accounts;
  assert.deepEqual([times, forgotten, others.length], [403, Math.floor(start / DAY + 3) * DAY, 0]);
  const before = device.inbox.items.length;
  assert.equal(device.document.batches.length, 101, "sent batches are folded too");
  assert.equal((await device.client.status()).acknowledged, 403);
  for (const day of [-1, 0, 3, 402]) {
    device.now = start + day * DAY;
    const { details } = await device.client.record("city", "Oslo");
    assert.equal(details, "this window was sealed before the clock went back");
  }
  device.sleep(1);
  await live();
  assert.equal(device.inbox.items.length, before + 1);
});

test("23 a document from before clocks leaped is read and freed", async () => {
  const device = await granted({ registry: lastingRegistry() });
  const { accounts, sealed, unlisted, ...old } = device.document;
  assert.deepEqual([accounts, { ...sealed }, { ...unlisted }], [[], {}, {}]);
  const at = (Math.floor(device.now / DAY) + 1) * DAY;
  const charges = [at, at + 9000 * DAY].map((end) =>
    ({ group: "places", metric: "city", price: 4, times: 1, at: end }));
  device.options.storage.device = { ...old, charges, latest: Date.UTC(2035, 0, 1) / 1000 };
  assert.equal((await device.client.record("city", "Oslo")).recorded, false, "it was sealed");
  for (let day = 0; day < 2; day += 1) {
    device.sleep(1);
    await device.client.record("city", "Oslo");
  }
  assert.equal((await device.client.upload()).acknowledged, 1);
  assert.deepEqual(Object.keys(device.charges("places")).length, 3);
});

test("27 a storage that is foreign, of a later format or blocked declines records", async () => {
  const device = await granted();
  const { storage } = device.options;
  for (const transaction of [
    async () => { throw new StorageError("the browser's storage cannot be used: QuotaExceededError"); },
    async () => { throw new StorageError("another tab uses the storage", true); },
    async () => { throw new Error("boom"); },
  ]) {
    storage.transaction = transaction;
    const { recorded, reason } = await device.client.record("city", "Oslo");
    assert.ok(!recorded && ["storage", "busy", "error"].includes(reason));
  }
});

test("27 a storage of another product is declined, with its consent and its reports", async () => {
  const device = await granted();
  await device.client.record("city", "Oslo");
  const kept = structuredClone(device.document);
  const collector = new Inbox();
  const other = { ...registry(), product: { name: "another" } };
  device.restart({ registry: other, collector });
  device.sleep(1);
  assert.match((await device.client.status()).storage, /of product weather, not another/);
  assert.equal((await device.client.record("city", "Oslo")).reason, "storage");
  assert.match((await device.client.upload()).why, /of product weather/);
  assert.deepEqual([await device.client.grant(), await device.client.withdraw()], [false, false]);
  assert.deepEqual([device.document, collector.tries], [kept, []]);
});

test("28 nothing that fails reaches the app", async () => {
  const broken = { transaction: () => { throw new Error("secret Oslo"); }, alone: (w) => w(), close() {} };
  const client = new Client({ ...new Device().options, storage: broken });
  const answers = [
    await client.grant(), await client.withdraw(), await client.record("city", "Oslo"),
    await client.upload(), await client.remaining(), await client.status(), await client.pending(),
    await client.sent(), await client.explain(),
  ];
  assert.ok(!JSON.stringify(answers).includes("Oslo"));
  await client.close();
});

test("a mistake of the app is declined, and its value is in no message", async () => {
  const device = await granted();
  for (const [metric, value, reason] of [
    ["town", "Oslo", "unknown metric"], ["toString", "Oslo", "unknown metric"],
    ["theme", "purple", "value"], ["word", 7, "value"], ["city", null, "value"],
  ]) {
    const answer = await device.client.record(metric, value);
    assert.equal(answer.reason, reason);
    assert.ok(!answer.details.includes("purple"));
  }
  const counted = { "unknown metric": 2, value: 3 };
  assert.deepEqual((await device.client.status()).declined, counted);
  await device.client.withdraw();
  await device.client.record("town", "Oslo");
  assert.deepEqual((await device.client.status()).declined, {});
  await device.client.grant();
  assert.deepEqual(await device.client.record("city", "Atlantis"), yes); // counts as other
  assert.deepEqual(await device.client.record("word", "\ud800"), yes); // as U+FFFD
});

test("a number, a text and a set of any kind are what they stand for", async () => {
  const same = (value, other) => assert.deepEqual(copied(value), other);
  same([5n, new Number(0.5), new String("a")], [5, 0.5, "a"]);
  same(new Set(["b", new Set(["a"])]), ["b", ["a"]]);
  same([1, , 2], [1, undefined, 2]); // a hole is a missing value, and no error
  same(10n ** 400n, Infinity);
  const others = [new Date(0), new Boolean(true), /a/, () => 1, Symbol("a"), null, undefined, {}];
  for (const other of others) assert.equal(copied(other), other);
  const device = await granted();
  for (const value of [...others, [1, , 2]]) {
    assert.equal((await device.client.record("word", value)).reason, "value");
  }
  assert.deepEqual(await device.client.record("word", new String("rain")), yes);
});

test("words are cleaned as in Python, byte by byte", () => {
  const alphabet = "abcdefghijklmnopqrstuvwxyz";
  const metric = { cleans: true, mechanism: { alphabet, length: 10 } };
  const clean = (word) => Registry.prototype.cleaned(metric, word);
  assert.deepEqual(
    ["Straße", "naïve", "İstanbul", "ıx", "ΛΟΓΟΣ", "a-b c", "ﬁne", "abcdefghijkl"].map(clean),
    ["strasse", "naive", "istanbul", "x", "", "abc", "fine", "abcdefghij"],
  );
  const began = performance.now(); // a page does not stand still for a long text
  assert.equal(clean("x".repeat(1 << 24)), "xxxxxxxxxx");
  assert.ok(performance.now() - began < 1000);
});

test("a registry that says what does not hold is declined, metric by metric", async () => {
  const attempts = {
    "its fingerprint is not its mechanism's": (m) => { m.mechanism.categories.reverse(); },
    "its thresholds are not its mechanism's": (m) => { m.thresholds[0].touched += "1"; },
    "a report tells more than its epsilon": (m) => { m.epsilon = m.price = 1.999999; },
    "it is charged less than it tells": (m) => { m.price = 1; },
    "its group is missing": (m) => { m.group = "nowhere"; },
    "its mode or relay is not known here": (m) => { m.presence = "rare"; },
    "mechanism rr is not imported": () => {},
  };
  for (const [why, change] of Object.entries(attempts)) {
    const changed = registry();
    change(changed.metrics.city);
    const mechanisms = why.includes("imported") ? [localHashing] : everyMechanism;
    const device = await granted({ registry: changed, mechanisms });
    const answer = await device.client.record("city", "Oslo");
    assert.deepEqual([answer.reason, answer.details], ["registry", why]);
    assert.deepEqual(await device.client.record("word", "snow"), yes);
  }
});

test("pending says what waits, explain what it tells", async () => {
  const device = await granted({ collector: null });
  await device.client.record("city", "Oslo");
  await device.client.record("word", "snow");
  device.sleep(1);
  await device.client.upload();
  const pending = await device.client.pending();
  assert.match(pending.find(({ metric }) => metric === "city").text, /^names "\w+" of 4 answers$/);
  assert.match(pending.find(({ metric }) => metric === "word").text, /^names 1 of the 8 cells/);
  const text = await device.client.explain();
  assert.match(text, /at most epsilon 8 each day \(UTC\), 16 in any 24 hours, 64 per stored site data; 8 is left now/);
  assert.match(text, /with 50 % believes it with at most 88\.1 % after one report/);
  assert.equal((await device.client.sent())[0].state, "waiting");
});

test("a registry for development sends to this machine only", async () => {
  const { name } = registry().product;
  const document = { ...registry(), product: { name, development: true } };
  const client = (collector) => new Client({ ...new Device().options, registry: document, collector });
  const inbox = new Inbox();
  for (const far of ["https://telemetry.example", "https://localhost.example", inbox]) {
    assert.throws(() => client(far), /development = true sends to this machine only/);
  }
  client("http://127.0.0.1:8787");
  client("http://[::1]:8787");
  client(null);
  client(Object.assign(inbox, { isLocal: true }));
});

test("in development a batch leaves when its period is over", async (t) => {
  const document = { ...registry(), product: { ...registry().product, development: true } };
  const collector = Object.assign(new Inbox(), { isLocal: true });
  const device = await granted({ registry: document, collector, jitter: 3600, keepSent: 1 });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  device.client.start();
  t.mock.timers.tick(60_000);
  while (!collector.batches.length) await new Promise(setImmediate);
  await device.client.close(); // after the batches that are on their way
  const said = (await device.restart().sent()).flatMap(({ statements }) => statements);
  assert.match(said.find(({ metric }) => metric === "city").text, /^names "\w+" of 4 answers$/);
  assert.equal((await device.client.status()).waiting, 0);
});

test("a connection to IndexedDB that the browser lost is opened again", async () => {
  const record = { format: 1 };
  let opens = 0;
  const answering = (request) => (setImmediate(() => request.onsuccess()), request);
  const database = (isLost) => ({
    close() {},
    transaction() {
      if (isLost) throw new DOMException("the connection is closing", "InvalidStateError");
      const transaction = { objectStore: () => ({ get: () => answering({ result: record }) }) };
      setImmediate(() => setImmediate(() => transaction.oncomplete()));
      return transaction;
    },
  });
  const before = globalThis.indexedDB;
  globalThis.indexedDB = { open: () => answering({ result: database((opens += 1) === 1) }) };
  try {
    const storage = indexedDbStorage("weather");
    const read = () => storage.transaction((device) => ({ result: device }), false);
    await assert.rejects(read(), (error) => error instanceof StorageError);
    assert.equal(await read(), record);
    assert.deepEqual([await read(), opens], [record, 2]);
  } finally {
    globalThis.indexedDB = before;
  }
});

test("transactions that begin at once share one connection to IndexedDB, which close closes", async () => {
  let [opens, closes] = [0, 0];
  const answering = (request) => (setImmediate(() => request.onsuccess()), request);
  const transaction = () => {
    const begun = { objectStore: () => ({ get: () => answering({ result: { format: 1 } }) }) };
    setImmediate(() => setImmediate(() => begun.oncomplete()));
    return begun;
  };
  const database = () => ({ transaction, close: () => { closes += 1; } });
  const before = globalThis.indexedDB;
  globalThis.indexedDB = { open: () => ((opens += 1), answering({ result: database() })) };
  try {
    const storage = indexedDbStorage("weather");
    const read = () => storage.transaction(() => ({ result: null }), false);
    await Promise.all([read(), read(), read()]);
    storage.close();
    await read(); // another connection, after the end of the first
    assert.deepEqual([opens, closes], [2, 1]);
  } finally {
    globalThis.indexedDB = before;
  }
});

test("where there is no IndexedDB records are declined for the storage", async () => {
  const before = globalThis.indexedDB;
  globalThis.indexedDB = undefined;
  try {
    const { client } = new Device({ storage: indexedDbStorage("weather") });
    assert.equal(await client.grant(), false);
    assert.equal((await client.record("city", "Oslo")).reason, "storage");
    assert.equal((await client.status()).storage, "no IndexedDB");
  } finally {
    globalThis.indexedDB = before;
  }
});

test("a visit of two seconds sends what waits", async (t) => {
  const device = await granted({ registry: publicRegistry() });
  await device.client.record("city", "Oslo");
  device.sleep(1);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  device.client.start();
  t.mock.timers.tick(2000);
  for (let i = 0; i < 100; i += 1) await new Promise(setImmediate);
  await device.client.close();
  assert.equal(device.inbox.batches.length, 1);
});

test("no interval makes uploads follow each other without a pause", async (t) => {
  for (const [every, least] of [[31 * DAY, 86_400], [0, 1], [-1, 1], [NaN, 1]]) {
    const device = await granted({ registry: publicRegistry() });
    const [timers, waits] = [[], []];
    const mocked = t.mock.method(globalThis, "setTimeout", (work, wait) => {
      timers.push(work);
      waits.push(wait);
      return {};
    });
    device.client.start(every);
    timers[0]();
    while (waits.length < 2) await new Promise(setImmediate);
    mocked.mock.restore();
    await device.client.close();
    assert.ok(waits[0] >= 1000 && waits[0] <= 60_000, `first wait ${waits[0]}`);
    assert.ok(waits[1] >= 1000 * least && waits[1] < 2 ** 31, `wait ${waits[1]}`);
  }
});

test("the constructor says which option cannot be right", () => {
  for (const [option, values, said] of [
    ["storage", [undefined], /^no storage or mechanisms$/],
    ["mechanisms", [undefined], /^no storage or mechanisms$/],
    ["collector", ["http://x.example", "https://a@x.example", "x.example", undefined, {}, 5], /must be https/],
    ["registry", ["https://x.example/v1/registry.json"], /^registrySha256 must be 64 hex digits$/],
    ["secret", [new Uint8Array(15)], /^a secret has 16 bytes or more$/],
    ["keepSent", [-1, 0.5, "7", NaN], /^jitter and keepSent are whole numbers, 0 or more$/],
  ]) {
    for (const value of values) {
      const made = () => new Client({ ...new Device().options, [option]: value });
      assert.throws(made, (error) => error instanceof TypeError && said.test(error.message));
    }
  }
  assert.throws(() => new Client({ ...new Device().options, registry: { format: 2 } }), /format 1/);
  new Client({ ...new Device().options, collector: new URL("https://x.example") });
});
