// Columns, permanent responses and chosen answers of RAPPOR, for tests/client/test_web_client.py: JSON in, JSON out.

import { readFileSync } from "node:fs";
import { fromHex } from "../dist/bytes.js";
import { KeyedResponses } from "../dist/memory.js";
import { Encoder } from "../dist/encoder.js";
import { everyMechanism } from "../dist/mechanisms/index.js";

const partOf = (parameters) => new Encoder(parameters, everyMechanism).parts[0];
const { choices, columns, responses } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({
  choices: choices.map(([parameters, secret, metric, value]) => {
    const encoder = new Encoder(parameters, everyMechanism);
    return [...new KeyedResponses(encoder, fromHex(secret), metric).cell(value)];
  }),
  columns: columns.map(([parameters, value, row]) =>
    [...new Set(partOf(parameters).touches(value, row))].sort((a, b) => a - b)),
  responses: responses.map(([parameters, secret, metric, cell]) => {
    const { keyed } = partOf(parameters).memory;
    const response = keyed.response(fromHex(secret), metric, BigInt(cell));
    return [keyed.row(fromHex(secret)), `${response}`];
  }),
}));
