// Kills a browser in the middle of its work, again and again:
// node test/kill-browser.mjs EXECUTABLE KILLS
// One profile lives through all; every document is checked against what arrived. Prints how many
// batches were sent since the browser last discarded its storage, and how often it did.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { lastingRegistry } from "./devices.mjs";
import { check } from "./invariants.mjs";

const [executablePath, kills] = process.argv.slice(2);
const ROOT = new URL("..", import.meta.url);
const bodies = [];
const server = createServer(async (request, response) => {
  if (request.method === "POST") {
    const parts = [];
    try {
      for await (const part of request) parts.push(part);
    } catch {
      return; // the browser was killed while it sent
    }
    bodies.push(Buffer.concat(parts));
    const isLost = bodies.length % 5 === 0; // now and then the answer does not come
    if (isLost) return void response.destroy();
    return void response.writeHead(202).end('{"refused":[]}');
  }
  const path = new URL(request.url, "http://localhost").pathname;
  const type = path.endsWith(".html") ? "text/html" : "text/javascript";
  const content = await readFile(new URL(`.${path}`, ROOT)).catch(() => null);
  response.writeHead(content ? 200 : 404, { "Content-Type": type }).end(content);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const site = `http://127.0.0.1:${server.address().port}`;
const userDataDir = await mkdtemp(join(tmpdir(), "ldp-profile-"));

/** The page keeps recording and uploading, every step a quarter of a day later. */
const live = async (registry, site, day) => {
  const { Client, indexedDbStorage } = await import("ldp-telemetry");
  const { everyMechanism } = await import("ldp-telemetry/mechanisms/index.js");
  let now = 86_400 * day;
  const client = new Client({
    ...{ registry, mechanisms: everyMechanism, storage: indexedDbStorage("kill"), jitter: 0 },
    ...{ collector: site, clock: () => 1000 * now },
  });
  await client.grant();
  void (async () => {
    for (;;) {
      await client.record("city", "Oslo");
      await client.record("word", `word ${now}`);
      await client.upload();
      now += 21_600;
    }
  })();
};
/** The document as JSON; null where the browser has no such database. */
const readDocument = async () => {
  if (!(await indexedDB.databases()).some(({ name }) => name === "ldp-telemetry kill")) return "null";
  return new Promise((resolve) => {
    indexedDB.open("ldp-telemetry kill", 1).onsuccess = ({ target }) => {
      const store = target.result.transaction("device").objectStore("device");
      store.get(0).onsuccess = ({ target: { result } }) =>
        resolve(JSON.stringify(result, (_, value) =>
          typeof value === "bigint" ? `${value}`
            : value instanceof Uint8Array ? { bytes: Array.from(value) }
              : value instanceof Float64Array ? { numbers: Array.from(value) } : value));
    };
  });
};

async function open() {
  const browser = await puppeteer.launch({
    ...{ executablePath, userDataDir, headless: true, handleSIGINT: false },
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  const page = await browser.newPage();
  await page.goto(`${site}/example/index.html`);
  return { browser, page };
}

/** Kill every process of a browser; one that was left would write beside the next. */
async function killAll(browser) {
  const ended = new Promise((resolve) => browser.process().once("exit", resolve));
  process.kill(-browser.process().pid, "SIGKILL");
  await ended;
  await new Promise((resolve) => setTimeout(resolve, 300));
}

const total = { kills: Number(kills), discarded: 0, sent: 0 };
/** Check what is there after a kill, or count that the browser discarded all of it. */
async function checkAfterKill(page, kill) {
  const document = JSON.parse(await page.evaluate(readDocument), (_, value) =>
    value?.bytes ? Uint8Array.from(value.bytes)
      : value?.numbers ? Float64Array.from(value.numbers) : value);
  if (document) {
    total.sent = check(document, bodies, lastingRegistry()).sent;
  } else if (kill > 0) {
    total.discarded += 1;
    bodies.length = 0; // a new life: what left before was of another
  }
}

try {
  for (let kill = 0; kill <= Number(kills); kill += 1) {
    const { browser, page } = await open();
    try {
      await checkAfterKill(page, kill);
      if (kill === Number(kills)) break;
      await page.evaluate(live, lastingRegistry(), site, 20_778 + 60 * kill);
      await new Promise((resolve) => setTimeout(resolve, 20 + 300 * Math.random()));
    } finally {
      await killAll(browser); // also where a check fails: a browser that is left would hold Node
    }
  }
  console.log(JSON.stringify(total));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  server.closeAllConnections();
  server.close();
  await rm(userDataDir, { recursive: true, force: true, maxRetries: 5 });
}
