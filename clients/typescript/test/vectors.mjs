// The golden vectors, checked the same way in Node and in a browser: each check gives pairs of what
// this client says and what the vectors say.

import { fromHex, range, toHex } from "../dist/bytes.js";
import { Encoder, fingerprint, seededBits } from "../dist/encoder.js";
import { column, derivedSeed, pointOf, rowDigest } from "../dist/hashing.js";
import { drawResponse, KeyedResponses, reportOf } from "../dist/memory.js";
import { isWithin } from "../dist/probability.js";
import { bernoulli, keyedBits, uniformBelow } from "../dist/randomness.js";
import { bytesOf } from "../dist/values.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

const seeded = (hex) => seededBits(fromHex(hex));

function table({ rows, columns, vote }, reports) {
  const own = range(rows).map((row) => reports.filter((report) => report.row === row));
  const count = (list, i) => list.reduce((sum, { number }) => sum + vote(number, i), 0);
  return {
    counts: own.map((list) => range(columns).map((i) => count(list, i))),
    reports: own.map((list) => list.length),
  };
}

function memoisedPairs(encoder, { secret_hex, metric, epoch, seed_hex, reports }) {
  const keyed = new KeyedResponses(encoder, fromHex(secret_hex), metric, epoch ?? undefined);
  const bits = seeded(seed_hex);
  const first = keyed.response(reports[0][0]);
  return reports.map(([value, said]) => {
    const response = epoch === null ? keyed.response(value) : first;
    return [toHex(reportOf(encoder, response, bits)), said];
  });
}

export function checkExample(example) {
  const encoder = new Encoder(example.parameters, everyMechanism);
  const { parts } = encoder;
  const bits = seeded(example.seed_hex);
  const contents = example.reports.map(([, said]) => encoder.unpack(fromHex(said)));
  const tables = parts.map((part, i) => table(part, contents.map((content) => content[i])));
  const thresholds = parts.map(({ touched, untouched }) => ({ touched, untouched }));
  return [
    [encoder.fingerprint, example.fingerprint],
    [thresholds, example.thresholds],
    ...example.reports.map(([value, said]) => [toHex(encoder.encode(value, bits)), said]),
    ...Object.values(example.bad_reports).map((report) => [encoder.unpack(fromHex(report)), null]),
    [tables, example.tables],
    ...(example.memoised ?? []).flatMap((device) => memoisedPairs(encoder, device)),
    // the printed epsilon is above what the thresholds allow, and by less than 1e-12 of it
    [isWithin(encoder.ratio, example.epsilon), true],
    [isWithin(encoder.ratio, example.epsilon * (1 - 1e-12)), false],
  ];
}

const CHECKS = {
  seeded_bits({ seed_hex, draws }) {
    const bits = seeded(seed_hex);
    return draws.map(([n, said]) => [bits.draw(n), BigInt(said)]);
  },
  bernoulli: (list) => list.map((t) => [
    bernoulli(seeded(t.seed_hex), BigInt(t.threshold), t.lanes, BigInt(t.chosen),
      BigInt(t.chosen_threshold)),
    BigInt(t.word),
  ]),
  uniform_below: (list) =>
    list.map((t) => [uniformBelow(seeded(t.seed_hex), BigInt(t.bound)), BigInt(t.number)]),
  keyed_bits: (list) => list.map(([secret, message, said]) =>
    [keyedBits(fromHex(secret), fromHex(message)).draw(4000), BigInt(said)]),
  fingerprints: (list) => list.map(([parameters, said]) => [fingerprint(parameters), said]),
  points: (list) => list.map(([value, said]) => [pointOf(bytesOf(value)), BigInt(said)]),
  polynomial_rows: ({ seed, width, row_digests, columns }) => [
    ...row_digests.map(([row, said]) => [toHex(rowDigest(seed, row)), said]),
    ...columns.map(([value, row, said]) => [column(seed, width, row, bytesOf(value)), said]),
  ],
  derived_seed: ([names, said]) => [[derivedSeed(...names), said]],
  examples: (list) => list.flatMap(checkExample),
};

const text = (x) => JSON.stringify(x, (_, inner) => (typeof inner === "bigint" ? `${inner}` : inner));

/** The number of pairs of a file that agree, and the first that do not. */
export function checkFile(content) {
  let pairs = [];
  for (const [key, part] of Object.entries(content)) {
    if (!CHECKS[key]) throw new Error(`unknown key ${key}`);
    pairs = pairs.concat(CHECKS[key](part));
  }
  const wrong = pairs.filter(([here, said]) => text(here) !== text(said));
  return { checked: pairs.length, wrong: wrong.slice(0, 3).map(text) };
}
