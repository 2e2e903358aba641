// The TypeScript client with a cheat: each report is handed to another process, which answers what
// leaves. node client.mjs REQUESTS ANSWERS: two named pipes; lives are read as client-lines.js does.

import { openSync, readSync, writeSync } from "node:fs";
import { clientLines } from "../../clients/typescript/dist/client-lines.js";

const [requests, answers] = [openSync(process.argv[2], "w"), openSync(process.argv[3], "r")];
const block = Buffer.alloc(1 << 16);
let rest = "";

/** The next line of the answers, waited for. */
function line() {
  while (!rest.includes("\n")) {
    const size = readSync(answers, block, 0, block.length, null);
    if (size === 0) throw new Error("the cheat has ended");
    rest += block.toString("utf8", 0, size);
  }
  const end = rest.indexOf("\n");
  const whole = rest.slice(0, end);
  rest = rest.slice(end + 1);
  return whole;
}

/** What JSON has for a value: bytes as hexadecimal digits. */
const readable = (_, part) =>
  part instanceof Uint8Array ? { hex: Buffer.from(part).toString("hex") } : part;

await clientLines((encode, { metric, device, epoch }) => (value) => {
  const report = Buffer.from(encode(value)).toString("hex");
  const request = { metric, device, epoch: epoch === null ? null : String(epoch), value, report };
  writeSync(requests, `${JSON.stringify(request, readable)}\n`);
  return Uint8Array.from(Buffer.from(JSON.parse(line()).report, "hex"));
});
