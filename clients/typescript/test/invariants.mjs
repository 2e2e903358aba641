// What must hold of a device's document and of what arrived, whatever ended the client, and when.

import assert from "node:assert/strict";
import { unpackBatch } from "../dist/batch.js";
import { chargesOf } from "./devices.mjs";

const idOf = (body) => Buffer.from(body.subarray(10, 26)).toString("hex");

const sum = (list) => list.reduce((total, n) => total + n, 0);

/** `bodies`: every batch that arrived, in order, repeated ones too. Of the oldest that ended the
 * document has only numbers, by state: those that arrived are known by their bytes. */
export function check(document, bodies, registry) {
  const [{ batches }, charges] = [document, chargesOf(document)];
  const sent = new Map();
  for (const body of bodies) {
    const id = idOf(body);
    assert.deepEqual(Buffer.from(sent.get(id) ?? body), Buffer.from(body), "a retry has other bytes");
    sent.set(id, body);
  }
  const known = new Map(batches.map((batch) => [batch.id, batch]));
  for (const { id, body } of batches) {
    if (body && sent.has(id)) assert.deepEqual(Buffer.from(body), Buffer.from(sent.get(id)));
  }
  const unlisted = [...sent].filter(([id]) => !known.has(id)).map(([, body]) => body);
  const { acknowledged = 0, ...others } = document.unlisted ?? {};
  const ended = acknowledged + sum(Object.values(others));
  assert.ok(unlisted.length <= ended, "what left was not sealed");
  assert.ok(acknowledged <= unlisted.length, "an acknowledged batch is lost");
  for (const { id, state, body } of batches) {
    const isKept = ["waiting", "held"].includes(state) && body;
    assert.ok(isKept || state === "dropped" || sent.has(id), `a ${state} batch is lost`);
  }
  for (const [group, caps] of Object.entries(registry.groups)) {
    const own = charges.filter((charge) => charge.group === group);
    const spent = {};
    for (const { at, price, times } of own) spent[at] = (spent[at] ?? 0) + price * times;
    const windows = Object.values(spent);
    assert.ok(windows.every((epsilon) => epsilon <= caps.window_epsilon), "more than a window");
    const life = windows.reduce((a, b) => a + b, 0);
    assert.ok(life <= caps.lifetime_epsilon, "more than a life");
  }
  const reports = batches.flatMap((batch) => Object.entries(batch.reports));
  reports.push(...unlisted.flatMap(unpackBatch).map(({ metric }) => [metric, 1]));
  for (const [name, { memoise }] of Object.entries(registry.metrics)) {
    if (memoise) continue; // fresh noise: each report is charged once
    const paid = sum(charges.filter(({ metric }) => metric === name).map(({ times }) => times));
    const sealed = sum(reports.filter(([metric]) => metric === name).map(([, count]) => count));
    const isRight = unlisted.length === ended ? paid === sealed : paid >= sealed;
    assert.ok(isRight, `${name}: charged otherwise than sealed: ${paid}, ${sealed}`);
  }
  const contents = [...sent.values()].flatMap(unpackBatch).length;
  const waiting = batches.filter(({ state }) => state === "waiting").length;
  return { batches: batches.length, sent: sent.size, deliveries: bodies.length, contents, waiting };
}
