// Drives the example through a real browser: node test/browser.mjs BROWSER EXECUTABLE PAGE VECTORS
// One line of JSON a step on standard output; exit code 1 where a step is not as it should be.

import assert from "node:assert/strict";
import { launch, open as openTab, until } from "./browsing.mjs";

const [name, executable, address, vectors] = process.argv.slice(2);
const browser = await launch(name, executable);
const collector = new URL(address).searchParams.get("collector");
const say = (step, details = {}) => console.log(JSON.stringify({ step, ...details }));

async function open(hours) {
  const page = await openTab(browser, address, hours);
  await until(page, "status", /consent: /);
  return page;
}

async function click(page, id, pattern) {
  await page.evaluate((id) => document.getElementById(id).click(), id);
  return until(page, "status", pattern);
}

const toCollector = (page) => page.requests.filter((url) => url.startsWith(collector)).length;

try {
  const page = await open();
  const checked = await page.evaluate(async (vectors) => {
    const { checkFile } = await import("/clients/typescript/test/vectors.mjs");
    let checked = 0;
    for (const name of vectors) {
      const file = checkFile(await (await fetch(`/tests/vectors/${name}`)).json());
      if (file.wrong.length) throw new Error(`${name}: ${file.wrong}`);
      checked += file.checked;
    }
    return checked;
  }, vectors.split(","));
  say("vectors", { checked });

  const databases = await page.evaluate(async () => (await indexedDB.databases()).length);
  assert.deepEqual([databases, toCollector(page)], [0, 0]);
  await click(page, "Oslo", /Not recorded: the owner does not agree/);
  say("before consent nothing is written or sent");

  await click(page, "agree", /Thank you \(consent: granted/);
  await until(page, "explanation", /at most epsilon/);
  await click(page, "Oslo", /Recorded .* 1 drawn/);
  const second = await open(); // another tab of the same site
  await click(second, "Bergen", /Recorded .* 2 drawn/);
  await second.close();
  await click(page, "Hell", /Recorded .* 3 drawn/);
  say("two tabs record into one pool");

  await page.close(); // what was recorded survives
  const third = await open(2);
  await click(third, "upload", /Sent 1 .*1 sent/);
  await until(third, "pending", /^$/);
  say("sent", { to: toCollector(third) });

  await click(third, "Oslo", /Recorded .* 1 drawn/);
  await click(third, "withdraw", /What waited was deleted \(consent: withdrawn; 0 drawn/);
  await click(third, "upload", /Sent 0: consent/);
  say("withdrawn");
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await browser.close();
}
