// The document in SQLite, on Node 22.13 or newer.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { DAY, Device, lastingRegistry, publicRegistry } from "./devices.mjs";
import { check } from "./invariants.mjs";
import { StorageError } from "../dist/index.js";
import { sqliteStorage } from "../dist/storage/sqlite.js";

const [major, minor] = process.versions.node.split(".").map(Number);
const skip = (major > 22 || (major === 22 && minor >= 13)) ? false : "needs Node 22.13";
const place = () => join(mkdtempSync(join(tmpdir(), "ldp-")), "device.ldp");

test("27 a place that the system does not open declines records, and says why", async (t) => {
  const { getBuiltinModule } = process;
  t.after(() => Object.assign(process, { getBuiltinModule }));
  process.getBuiltinModule = () => ({}); // SQLite is not reached, nor needed
  const loop = place();
  symlinkSync(loop, loop);
  const device = new Device({ storage: sqliteStorage(loop) });
  assert.equal(await device.client.grant(), false);
  const { reason, details } = await device.client.record("city", "Oslo");
  assert.equal(reason, "storage");
  assert.match(details, /the device's file cannot be used: ELOOP/);
  assert.match((await device.client.status()).storage, /ELOOP/);
});

test("sqlite: a Node without it is told which one it needs", () => {
  const { getBuiltinModule } = process;
  try {
    for (const lacking of [undefined, () => undefined]) {
      process.getBuiltinModule = lacking;
      const why = /^sqliteStorage needs Node 22\.13 or newer; this is \d+\./;
      assert.throws(() => sqliteStorage("device.ldp"), (e) => e instanceof StorageError && why.test(e.message));
    }
  } finally {
    process.getBuiltinModule = getBuiltinModule;
  }
});

test("sqlite: nothing before consent, then a file of the owner's that a restart goes on with",
  { skip }, async () => {
    const path = place();
    const device = new Device({ storage: sqliteStorage(path), registry: publicRegistry() });
    await device.client.record("city", "Oslo");
    await device.client.status();
    assert.equal(existsSync(path), false);
    await device.client.grant();
    assert.equal(statSync(path).mode & 0o777, 0o600);
    await device.client.record("city", "Oslo");
    await device.client.record("theme", "dark");
    await device.client.close();
    device.restart({ storage: sqliteStorage(path) });
    device.sleep(1);
    assert.equal((await device.client.upload()).acknowledged, 1);
    assert.deepEqual(device.inbox.items.map(({ metric }) => metric).sort(), ["city", "theme"]);
    await device.client.close();
    assert.equal((await device.client.record("city", "Oslo")).reason, "storage");
  });

test("sqlite: a full disk is named, although SQLite rolled back by itself", { skip }, async () => {
  const { DatabaseSync } = await import("node:sqlite");
  const { exec } = DatabaseSync.prototype;
  const path = place();
  const device = new Device({ storage: sqliteStorage(path) });
  await device.client.grant();
  DatabaseSync.prototype.exec = function (text) {
    if (text !== "COMMIT") return exec.call(this, text);
    exec.call(this, "ROLLBACK");
    throw Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR" });
  };
  try {
    const { details } = await device.client.record("city", "Oslo");
    assert.equal(details, `${path}: the device's file cannot be used: database or disk is full`);
  } finally {
    DatabaseSync.prototype.exec = exec;
  }
});

test("sqlite: a foreign or damaged file is declined and left alone", { skip }, async () => {
  for (const content of ["not a database, but long enough to look at".repeat(30), ""]) {
    const path = place();
    writeFileSync(path, content);
    const device = new Device({ storage: sqliteStorage(path) });
    assert.equal(await device.client.grant(), content === "");
    if (content) assert.equal(readFileSync(path, "utf8"), content);
    await device.client.close();
  }
});

test("sqlite: a file that was deleted takes no more records, and one in its place is read",
  { skip }, async () => {
    const [path, other] = [place(), place()];
    const device = new Device({ storage: sqliteStorage(path) });
    await device.client.grant();
    rmSync(path);
    for (const _ of [1, 2]) {
      const { reason, details } = await device.client.record("city", "Oslo");
      assert.equal(reason, "storage");
      assert.equal(details, `${path}: the device's file was deleted while it was open`);
    }
    assert.deepEqual([await device.client.grant(), existsSync(path)], [false, false]);
    const withdrawn = new Device({ storage: sqliteStorage(other) });
    await withdrawn.client.withdraw();
    await withdrawn.client.close();
    renameSync(other, path);
    assert.equal((await device.client.record("city", "Oslo")).reason, "consent");
    assert.equal((await device.client.status()).consent, "withdrawn");
    await device.client.close();
  });

test("sqlite: a file that another process holds is busy", { skip }, async () => {
  const path = place();
  const device = new Device({ storage: sqliteStorage(path) });
  await device.client.grant();
  const { DatabaseSync } = await import("node:sqlite");
  const other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  assert.equal((await device.client.record("city", "Oslo")).reason, "busy");
  other.exec("COMMIT");
  other.close();
  assert.deepEqual(await device.client.record("city", "Oslo"), { recorded: true });
  await device.client.close();
});

test("sqlite: processes that are killed lose nothing sealed and charge nothing twice",
  { skip }, async () => {
    const kills = Number(process.env.KILLS ?? 10);
    const path = place();
    const inbox = `${path}.inbox`;
    const script = fileURLToPath(new URL("life.mjs", import.meta.url));
    let day = Math.floor(Date.UTC(2026, 10, 21) / 1000 / DAY);
    for (let kill = 0; kill < kills; kill += 1) {
      const child = spawn(process.execPath, [script, path, inbox, `${day}`]);
      await new Promise((resolve) => child.stdout.once("data", resolve));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 250));
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await ended;
      day += 3;
    }
    const device = new Device({ storage: sqliteStorage(path) });
    const document = await device.options.storage.transaction((d) => ({ result: d }), false);
    const lines = readFileSync(inbox, "utf8").split("\n").filter(Boolean);
    const bodies = lines.map((line) => Buffer.from(line, "hex"));
    const said = check(document, bodies, lastingRegistry());
    assert.ok(said.sent > 0);
    console.log(JSON.stringify({ kills, ...said }));
    await device.client.close();
  });
