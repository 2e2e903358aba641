// What drives a real browser: tabs with a clock of their own, and waiting for what they say.

import puppeteer from "puppeteer-core";

export const launch = (name, executablePath) =>
  puppeteer.launch({
    ...{ browser: name, executablePath, headless: true, protocol: "webDriverBiDi" },
    args: name === "chrome" ? ["--no-sandbox", "--disable-dev-shm-usage"] : [],
  });

/** A new tab, whose clock is so many hours ahead, and the addresses that it asks. */
export async function open(browser, address, hours = 0) {
  const page = await browser.newPage();
  await page.evaluateOnNewDocument((hours) => {
    const real = Date.now;
    Date.now = () => real() + 3_600_000 * hours;
  }, hours);
  page.requests = [];
  page.on("request", (request) => page.requests.push(request.url()));
  page.on("pageerror", (error) => console.error(error));
  await page.goto(address);
  return page;
}

/** What an element says, once it says what is awaited. */
export async function until(page, id, pattern) {
  let text = "";
  for (let tries = 0; tries < 240; tries += 1) {
    text = await page.evaluate((id) => document.getElementById(id).textContent, id);
    if (pattern.test(text)) return text;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${id} never said ${pattern}, but ${text}`);
}

