// The client as a program for `ldp audit --client --encoder`: many devices, each with a document in
// memory and the audit's clock. A line of JSON on standard input is what one device did in a period:
//   device     its number; the first line of a number also has
//   registry   the registry as JSON, to whose caps the owner agrees, and
//   seed       hexadecimal digits, for bits that can be repeated; without, the platform's bits
//   records    [seconds since 1970, metric, value] of each record, bytes as {"hex": "00ff"}
//   upload     seconds since 1970 of the upload that follows
// The answer is a line of JSON: `batches`, the bodies of those that left, in hexadecimal digits;
// `declined`, how many records were; and `secret`, the device's, if it has one.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { fromHex, toHex } from "./bytes.js";
import { Client } from "./client.js";
import type { Device, Work } from "./device.js";
import type { Value } from "./kinds.js";
import { everyMechanism } from "./mechanisms/index.js";
import { modeOf, type Mode, type Scene } from "./modes.js";
import { seededBits, systemBits } from "./randomness.js";
import type { RegistryDocument } from "./registry.js";

export type Encode = (value: Value) => Uint8Array;
/** What an encoder is for. `epoch`: its end in seconds since 1970; null where there are none. */
export interface Context {
  readonly metric: string;
  readonly device: number;
  readonly epoch: number | null;
  readonly mechanism: string;
}
/** Makes of an encoder another one, such as one that cheats. */
export type Wrap = (encode: Encode, context: Context) => Encode;

interface Period {
  readonly device: number;
  readonly registry?: RegistryDocument;
  readonly seed?: string;
  readonly records: readonly (readonly [number, string, Value])[];
  readonly upload: number;
}

/** A client and all that is around it. */
class Played {
  document: Device | null = null;
  now = 0;
  batches: string[] = [];
  readonly client: Client;

  constructor({ registry, seed }: Period) {
    this.client = new Client({
      ...{ registry: registry!, mechanisms: everyMechanism, jitter: 0, storage: this.#storage() },
      ...{ bits: seed ? seededBits(fromHex(seed)) : systemBits(), clock: () => 1000 * this.now },
      collector: {
        send: async (body) => {
          this.batches.push(toHex(body));
          return 0;
        },
      },
    });
  }

  async period({ records, upload }: Period): Promise<object> {
    this.batches = [];
    let declined = 0;
    for (const [at, metric, value] of records) {
      this.now = at;
      declined += Number(!(await this.client.record(metric, value)).recorded);
    }
    this.now = upload;
    await this.client.upload();
    const { secret } = this.document!;
    return { batches: this.batches, declined, ...(secret && { secret: toHex(secret) }) };
  }

  /** The document itself: a copy for every record would take longer than all else. */
  #storage() {
    return {
      transaction: async <T>(work: Work<T>): Promise<T> => {
        const { device, result } = work(this.document);
        this.document = device ?? this.document;
        return result;
      },
      alone: <T>(work: () => Promise<T>): Promise<T> => work(),
      close() {},
    };
  }
}

/** Read and answer lines until the input ends. */
export async function clientLines(wrap?: Wrap): Promise<void> {
  const devices = new Map<number, Played>();
  if (wrap) wrapModes(wrap, (document) => {
    for (const [number, { document: own }] of devices) if (own === document) return number;
    return -1;
  });
  for await (const line of createInterface({ input: process.stdin })) {
    const period: Period = JSON.parse(line, (_, part) => (part?.hex ? fromHex(part.hex) : part));
    let played = devices.get(period.device);
    if (!played) {
      devices.set(period.device, (played = new Played(period)));
      played.now = period.records[0]?.[0] ?? period.upload;
      await played.client.grant();
    }
    process.stdout.write(`${JSON.stringify(await played.period(period))}\n`);
  }
}

/** Have every record of a public metric encoded by what `wrap` made. */
function wrapModes(wrap: Wrap, numberOf: (document: Device) => number): void {
  const wrapped = new Map<string, Encode>();
  let current: Encode;
  for (const memoise of [undefined, "per-value", "epoch"]) {
    const mode = modeOf({ memoise, presence: "public" } as Parameters<typeof modeOf>[0]);
    const { enter } = mode;
    mode.enter = (scene, value, now) => {
      const { device, metric } = scene;
      const encoder = Object.create(metric.encoder, {
        pack: {
          value() {
            const epoch = metric.epoch ? now - (now % metric.epoch) + metric.epoch : null;
            const context: Context = {
              ...{ metric: metric.name, device: numberOf(device), epoch },
              mechanism: metric.mechanism.mechanism as string,
            };
            const key = JSON.stringify(context);
            current = (other) => drawn(enter, scene, other, now);
            if (!wrapped.has(key)) wrapped.set(key, wrap((other) => current(other), context));
            return wrapped.get(key)!(value);
          },
        },
      });
      enter({ ...scene, metric: { ...metric, encoder } }, value, now);
    };
  }
}

/** The report that a record of this value would add, which leaves the device as it is; of an epoch
 * that has a response it is about that. */
function drawn(enter: Mode["enter"], scene: Scene, value: Value, now: number): Uint8Array {
  const device = { ...scene.device, periods: [], epochs: [...scene.device.epochs] };
  enter({ ...scene, device }, value, now);
  const [period] = device.periods as Device["periods"];
  return Object.values(period!.pool)[0]!.report;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await clientLines();
