// What an app writes, for the type checker: nothing here runs.

import { Client, indexedDbStorage, type Recorded, type RegistryDocument } from "ldp-telemetry";
import { Encoder } from "ldp-telemetry/encoder";
import { everyMechanism } from "ldp-telemetry/mechanisms";
import { rr } from "ldp-telemetry/mechanisms/rr";
import { localHashing } from "ldp-telemetry/mechanisms/local-hashing.js";
import { sqliteStorage } from "ldp-telemetry/node";

declare const registry: RegistryDocument;
const mechanisms = [rr, localHashing];
const collector = "https://telemetry.app.example";
const storage = indexedDbStorage("weather");
const client = new Client({ registry, collector, mechanisms, storage, jitter: 0 });
const every = { mechanisms: everyMechanism, storage: sqliteStorage("device.ldp") };
new Client({ registry, collector: null, ...every });

const recorded: Recorded = await client.record("city", "Oslo");
if (!recorded.recorded) recorded.reason satisfies string;
const report: Uint8Array = new Encoder({ mechanism: "rr" }, mechanisms).encode(["a", "b"]);
report satisfies Uint8Array;

// @ts-expect-error a registry is not optional
new Client({ collector, mechanisms, storage });
// @ts-expect-error nor is where reports go
new Client({ registry, mechanisms, storage });
// @ts-expect-error a value is no object
await client.record("city", { city: "Oslo" });
