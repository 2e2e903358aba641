// The encoder as a program for `ldp audit --encoder`: it reads the parameters of a mechanism as a
// line of JSON, then one value a line (bytes as {"hex": "00ff"}), and answers each with the
// hexadecimal digits of a report.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { fromHex, toHex } from "./bytes.js";
import { type BitSource, Encoder, type Mechanisms, systemBits } from "./encoder.js";
import { everyMechanism } from "./mechanisms/index.js";

export async function encodeLines(mechanisms: Mechanisms, bits: BitSource): Promise<void> {
  let encoder: Encoder | undefined;
  for await (const line of createInterface({ input: process.stdin })) {
    const content = JSON.parse(line, (_, part) => (part?.hex ? fromHex(part.hex) : part));
    if (encoder) process.stdout.write(`${toHex(encoder.encode(content, bits))}\n`);
    else encoder = new Encoder(content, mechanisms);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  await encodeLines(everyMechanism, systemBits());
}
