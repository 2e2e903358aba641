// How well the time of one encode tells a true report from a lie, of 100: node test/told-apart.mjs
// [CALLS]. The best threshold for one half of the calls is tried on the other; true reports and lies
// count alike, so that 50 is chance. What is printed is no test: it depends on the machine.

import { hasBit, parity } from "../dist/kinds.js";
import { KeyedResponses } from "../dist/memory.js";
import { Encoder, systemBits } from "../dist/encoder.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

const answers = (count) => Array.from({ length: count }, (_, i) => `answer ${i}`);
const names = (number, columns) => columns.includes(Number(number));
const hasAll = (number, columns) => columns.every((column) => hasBit(number, column));
const hasSign = (number, [column]) => parity(Number(number >> 1n) & column) === Number(number & 1n);
const SKETCH = { epsilon: 2, rows: 1024, seed: "00ff" };
/** Whether the number of a report says that a value which touches these columns is true. */
const MEASURED = [
  ["rr of 2", names, { mechanism: "rr", categories: answers(2), epsilon: 1 }],
  ["rr of 100", names, { mechanism: "rr", categories: answers(100), epsilon: 4 }],
  ["hcms", hasSign, { mechanism: "hcms", width: 1024, ...SKETCH }],
  ["local-hashing", names, { mechanism: "local-hashing", buckets: 8, ...SKETCH }],
  ["subset", hasAll, { mechanism: "subset", categories: answers(20), size: 4, epsilon: 2 }],
  ["pgr", names, { mechanism: "pgr", categories: answers(20), field: 3, epsilon: 2 }],
  ["unary", hasAll, { mechanism: "unary", categories: answers(20), variant: "symmetric", epsilon: 2 }],
  ["cms", hasAll, { mechanism: "cms", width: 1024, ...SKETCH }],
];
const PERMANENT = {
  ...{ mechanism: "memoised-rr", categories: answers(4), epsilon: 1, lifetime_epsilon: 2 },
};

/** The share of true reports less that of lies that took at most so long. */
const gain = (calls, at) => {
  const share = (which) => {
    const some = calls.filter(({ isTrue }) => isTrue === which);
    return some.filter(({ time }) => time <= at).length / some.length;
  };
  return share(true) - share(false);
};

/** Of 100 calls of the second half, how many the best threshold for the first half tells apart. */
function toldApart(calls) {
  const half = calls.length / 2;
  const [first, second] = [calls.slice(0, half), calls.slice(half)];
  const times = first.map(({ time }) => time).sort((a, b) => a - b);
  const thresholds = new Set(Array.from({ length: 256 }, (_, i) => times[Math.floor((i * half) / 256)]));
  const gains = [...thresholds].map((at) => [at, gain(first, at)]);
  const [at, best] = gains.reduce((a, b) => (Math.abs(b[1]) > Math.abs(a[1]) ? b : a));
  return 50 + 50 * gain(second, at) * Math.sign(best);
}

function timed(count, prepare) {
  return toldApart(Array.from({ length: count }, () => {
    const { run, isTrue } = prepare();
    const start = performance.now();
    const made = run();
    const time = performance.now() - start;
    return { time, isTrue: isTrue(made) };
  }));
}

const count = Number(process.argv[2] ?? 50_000);
for (const [name, isTrueOf, parameters] of MEASURED) {
  const [encoder, bits, value] = [new Encoder(parameters, everyMechanism), systemBits(), "answer 0"];
  const [part] = encoder.parts;
  const run = () => encoder.encode(value, bits);
  const isTrue = (report) => {
    const [{ row, number }] = encoder.unpack(report);
    return isTrueOf(number, part.touches(value, row, bits));
  };
  console.log(`${timed(count, () => ({ run, isTrue })).toFixed(1)} of 100: ${name}`);
}
const encoder = new Encoder(PERMANENT, everyMechanism);
const permanent = timed(count, () => {
  const responses = new KeyedResponses(encoder, crypto.getRandomValues(new Uint8Array(16)));
  return { run: () => responses.response("answer 0"), isTrue: ({ number }) => number === 0n };
});
console.log(`${permanent.toFixed(1)} of 100: memoised-rr, the permanent response of a secret`);
