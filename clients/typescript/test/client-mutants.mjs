// Clients that break their promise, each in one way: `ldp audit --client` must catch every one.
// node test/client-mutants.mjs NAME reads and answers lines as dist/client-lines.js does.

import { clientLines } from "../dist/client-lines.js";

const CATEGORIES = ["a", "b", "c", "d", "e", "f"];

/** Reports of the metric "new" are plain where this holds of (device, call, value). */
const plainWhere = (holds) => (encode, { metric, device }) => {
  let calls = 0;
  return (value) => {
    const report = encode(value);
    const isPlain = metric === "new" && holds(device, calls, value);
    calls += 1;
    if (isPlain) report[report.length - 1] = CATEGORIES.indexOf(value);
    return report;
  };
};

/** Every report of a device about a value is the first one. */
function repeated(encode) {
  const reports = new Map();
  return (value) => {
    if (!reports.has(value)) reports.set(value, encode(value));
    return reports.get(value);
  };
}

const MUTANTS = {
  honest: undefined,
  honestEncoders: (encode) => encode,
  oneCategoryPlain: plainWhere((device, call, value) => value === "c"),
  everyFourthPlain: plainWhere((device, call) => call % 4 === 0),
  oddDevicesPlain: plainWhere((device) => device % 2 === 1),
  repeatedByEpoch: (encode, { metric }) => (metric === "epoch-1" ? repeated(encode) : encode),
  repeatedPerValue: (encode, { metric }) => (metric === "value-1" ? repeated(encode) : encode),
};

await clientLines(MUTANTS[process.argv[2]]);
