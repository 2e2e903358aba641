// Does what docs/embedding-web.md tells a web developer: node test/quickstart.mjs EXECUTABLE PAGE

import { launch, open, until } from "./browsing.mjs";

const [executable, address] = process.argv.slice(2);
const browser = await launch("chrome", executable);
const click = (page, id) => page.evaluate((id) => document.getElementById(id).click(), id);
try {
  const page = await open(browser, address);
  await page.waitForFunction(() => document.getElementById("oslo").onclick); // the registry is there
  await click(page, "agree");
  console.log(await until(page, "said", /at most epsilon 2 each minute/));
  await click(page, "oslo");
  await until(page, "said", /"recorded":true/);
  await page.close();
  const later = await open(browser, address, 1);
  await later.waitForFunction(async () => (await window.client?.status())?.acknowledged, { polling: 500 });
  console.log(`acknowledged ${await later.evaluate(async () => (await client.status()).acknowledged)}`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await browser.close();
}
