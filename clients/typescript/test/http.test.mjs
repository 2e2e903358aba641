// What a collector may answer, and a registry that is fetched.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Collector, Unreachable } from "../dist/index.js";
import { Device, publicRegistry } from "./devices.mjs";

const BODY = JSON.stringify(publicRegistry());
const PIN = createHash("sha256").update(BODY).digest("hex");
let answer = (response) => response.end();
const requests = [];
const bodies = [];
const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part)).on("end", () => {
    requests.push({ ...request.headers, method: request.method, url: request.url });
    bodies.push(Buffer.concat(parts));
    answer(response);
  });
});
let url;
before(() => new Promise((resolve) => server.listen(0, "127.0.0.1", () => {
  url = `http://127.0.0.1:${server.address().port}`;
  resolve();
})));
after(() => {
  server.closeAllConnections();
  server.close();
});

const head = (status, body, headers = {}) => (response) =>
  response.writeHead(status, headers).end(body);

async function waiting() {
  const device = new Device({ collector: url, registry: publicRegistry() });
  await device.client.grant();
  await device.client.record("city", "Oslo");
  device.sleep(1);
  return device;
}

test("28 whatever the collector answers, the batch waits until it is acknowledged", async () => {
  const device = await waiting();
  for (const [reply, why] of [
    [head(500, "oops"), "the collector answered 500"],
    [head(200, "<html>hello"), "the collector answered 200"],
    [head(202, "<html>hello"), "the collector's answer cannot be read"],
    [head(202, '{"refused": 3}'), "the collector's answer cannot be read"],
    [head(307, "", { Location: "/elsewhere" }), "the collector cannot be reached from this origin"],
    [(response) => response.destroy(), "the collector cannot be reached from this origin"],
    [head(503, "", { "Retry-After": "7" }), "the collector answered 503"],
  ]) {
    answer = reply;
    const uploaded = await device.client.upload();
    assert.deepEqual([uploaded.why, uploaded.waiting], [why, 1]);
    device.now = Math.max(device.now, device.document.nextTry);
  }
  answer = head(202, '{"refused": [{"item": 0, "code": "expired"}]}');
  const { acknowledged, refused, why } = await device.client.upload();
  assert.deepEqual([acknowledged, refused], [1, 1]);
  assert.equal(why, "reports were refused: is the collector's registry this one?");
  assert.equal((await device.client.status()).refused, 1);
  const last = requests.at(-1);
  assert.deepEqual([last.method, last.url], ["POST", "/v1/reports"]);
  assert.equal(last["content-type"], "application/vnd.ldp.batch");
  assert.equal(last["ldp-batch"], bodies.at(-1).subarray(10, 26).toString("hex"));
  assert.ok(!("cookie" in last) && !("referer" in last));
});

test("13 a Retry-After of any length is kept, up to six hours", async () => {
  const device = await waiting();
  answer = head(503, "", { "Retry-After": "9".repeat(400) });
  await device.client.upload();
  assert.equal(device.document.nextTry - device.now, 6 * 3600);
});

test("13 a Retry-After is kept although the answer breaks off after it", async (t) => {
  const broken = new ReadableStream({ start: (stream) => stream.error(new TypeError("network error")) });
  const headers = { "Retry-After": "21000" };
  t.mock.method(globalThis, "fetch", async () => new Response(broken, { status: 503, headers }));
  const device = await waiting();
  assert.equal((await device.client.upload()).why, "the collector answered 503");
  assert.equal(device.document.nextTry - device.now, 21_000);
});

test("a collector of other ids puts a batch off, and nothing is lost", async () => {
  const device = await waiting();
  answer = head(421, "", { "Retry-After": "60" });
  const { acknowledged, why } = await device.client.upload();
  assert.equal(acknowledged, 0);
  assert.match(why, /^the collector (answered 421|cannot be reached)/); // fetch repeats 421 by itself
  device.now = Math.max(device.now, device.document.nextTry);
  answer = head(202, '{"refused": []}');
  assert.equal((await device.client.upload()).acknowledged, 1);
});

test("a request that was ended does not reach the collector", async () => {
  const before = requests.length;
  answer = head(202, '{"refused": []}');
  const sending = new Collector(url).send(new Uint8Array(1024), AbortSignal.abort());
  await assert.rejects(sending, Unreachable);
  assert.equal(requests.length, before);
});

test("a registry that is fetched must have the bytes that the app pins", async () => {
  for (const [reply, pin, why] of [
    [head(200, BODY), PIN, ""],
    [head(200, BODY.replace('"window_epsilon":8', '"window_epsilon":80')), PIN, /another SHA-256/],
    [head(200, "<html>"), PIN, /another SHA-256/],
    [head(500, "oops"), PIN, /another SHA-256/],
    [(response) => response.destroy(), PIN, /cannot be reached/],
    [head(200, BODY), "0".repeat(64), /another SHA-256/],
  ]) {
    answer = reply;
    const device = new Device({ registry: `${url}/v1/registry.json`, registrySha256: pin });
    const asked = requests.length;
    assert.equal((await device.client.record("city", "Oslo")).reason, "consent");
    assert.equal((await device.client.status()).registry, "");
    assert.equal(requests.length, asked); // before the owner agreed nobody is asked
    assert.equal(await device.client.grant(), why === "");
    if (!why) assert.deepEqual(await device.client.record("city", "Oslo"), { recorded: true });
    else assert.match(await device.client.explain(), why);
  }
});

test("requests for a registry do not tell how many records there were", async () => {
  const device = new Device({ registry: `${url}/v1/registry.json`, registrySha256: PIN });
  answer = head(200, BODY);
  await device.client.grant();
  for (const [reply, recorded] of [[head(503, ""), undefined], [head(200, BODY), true]]) {
    answer = reply;
    const [client, asked] = [device.restart(), requests.length];
    const oslo = () => client.record("city", "Oslo");
    const made = [...(await Promise.all([oslo(), oslo()])), await oslo()];
    assert.deepEqual(made.map((one) => one.recorded), Array(3).fill(recorded ?? false));
    const once = requests.length;
    assert.ok(once - asked <= 2, `${once - asked}`); // from the cache, and past it
    answer = head(200, BODY);
    await client.upload();
    assert.equal((await client.record("city", "Oslo")).recorded, true);
  }
});
