// Milliseconds of processor time of one record after so many periods of an hour, each with a record and
// a sent batch, and the bytes of the document then (in memory): node test/periods.mjs 50000

import { serialize } from "node:v8";
import { Device, lastingRegistry } from "./devices.mjs";

const HOUR = 1 / 24;
const RECORDS = 200;

/** The registry with windows of an hour. */
function hourly() {
  const { groups, ...rest } = lastingRegistry();
  const windows = Object.entries(groups).map(([name, caps]) => [name, { ...caps, window: 3600 }]);
  return { ...rest, groups: Object.fromEntries(windows) };
}

/** Milliseconds of processor time of each of `times` calls. */
async function processorTime(work, times) {
  const start = process.cpuUsage();
  for (let i = 0; i < times; i += 1) await work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000 / times;
}

/** A device that lived for so many periods, whose sent batches are read by nobody. */
async function lived(periods) {
  const device = new Device({ registry: hourly() });
  device.inbox.send = async () => 0;
  await device.client.grant();
  for (let period = 0; period < periods; period += 1) {
    await device.client.record("city", "Oslo");
    device.sleep(HOUR);
    await device.client.upload();
  }
  return device;
}

export async function measure(periods) {
  const device = await lived(periods);
  const record = () => device.client.record("city", "Oslo");
  await processorTime(record, RECORDS); // until the code is compiled
  const milliseconds = await processorTime(record, RECORDS);
  const { acknowledged } = await device.client.status();
  return { periods, acknowledged, bytes: serialize(device.document).length, milliseconds };
}

if (process.argv[1] === import.meta.filename) {
  console.log(JSON.stringify(await measure(Number(process.argv[2] ?? 50_000))));
}
