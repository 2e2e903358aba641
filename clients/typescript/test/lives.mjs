// Plays lives (simulations/lives): a line of JSON each on standard input, a transcript each as a
// line of JSON on standard output.

import { createInterface } from "node:readline";
import { seededBits } from "../dist/encoder.js";
import { Client, memoryStorage, Unreachable } from "../dist/index.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { chargesOf } from "./devices.mjs";

const COUNTED = ["consent", "pooled", "waiting", "held", "acknowledged", "dropped", "refused"];

/** What a value in JSON stands for: see value_of in simulations/lives/playing.py. */
function valueOf(value) {
  if (Array.isArray(value)) return value.map(valueOf);
  if (value === null || typeof value !== "object") return value;
  if (value.float) return { nan: NaN, inf: Infinity, "-inf": -Infinity }[value.float];
  if (value.set) return new Set(value.set);
  if (value.bytes) return new Uint8Array(Buffer.from(value.bytes, "hex"));
  if (value.whole) return BigInt(value.whole);
  if (value.object) return new String(value.object);
  return String.fromCharCode(...value.units);
}

async function play({ seed, registries, calls }) {
  const [storage, bits] = [memoryStorage(), seededBits(new TextEncoder().encode(`${seed}`))];
  let [now, manner, tries, registry] = [0, "takes", 0, 0];
  const [sealed, charges, periods] = [new Set(), new Set(), new Set()];
  const isNew = (known) => (one) => !known.has(`${one}`) && known.add(`${one}`);
  const collector = {
    async send() {
      tries += 1;
      if (manner === "fails") throw new Unreachable("the collector cannot be reached");
      return manner === "refuses" ? 1 : 0;
    },
  };
  const made = () =>
    new Client({
      ...{ registry: JSON.parse(registries[registry].json), mechanisms: everyMechanism },
      ...{ storage, bits, collector, jitter: 0, clock: () => 1000 * now },
    });
  let client = made();
  const steps = [];
  for (const call of calls) {
    [now, manner, tries] = [call.at, call.collector ?? "takes", 0];
    let answer = null;
    if (call.call === "grant") answer = await client.grant();
    else if (call.call === "withdraw") answer = await client.withdraw();
    else if (call.call === "upload") answer = await client.upload();
    else if (call.call === "record") {
      const done = await client.record(call.metric, valueOf(call.value));
      answer = done.recorded ? "recorded" : done.reason;
    } else {
      registry = call.registry ?? registry;
      client = made(); // the old one is not closed: that would close the storage
    }
    const status = await client.status();
    const device = storage.device;
    const step = { answer, tries, charges: [], sealed: [], periods: [], why: status.why };
    if (device) {
      step.charges = chargesOf(device)
        .map(({ group, metric, price, times, at }) => [group, metric, price, times, at])
        .filter(isNew(charges));
      step.periods = Object.entries(device.sealed)
        .flatMap(([group, ends]) => [...ends].map((end) => [group, end]))
        .filter(isNew(periods));
      step.sealed = device.batches.filter(({ id }) => !sealed.has(id))
        .map(({ day, reports }) => [day, reports]);
      for (const { id } of device.batches) sealed.add(id);
    }
    step.status = { ...Object.fromEntries(COUNTED.map((name) => [name, status[name]])) };
    step.status.unasked = [...status.unasked].sort();
    step.remaining = await client.remaining();
    steps.push(step);
  }
  return steps;
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await play(JSON.parse(line)))}\n`);
}
