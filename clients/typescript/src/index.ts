// The client for browsers. In Node import "ldp-telemetry/node" beside it for storage in a file.

export {
  Client,
  type Consent,
  type Options,
  type Reason,
  type Recorded,
  type Sent,
  type Status,
  type Uploaded,
} from "./client.js";
export { type Device, type Storage, StorageError } from "./device.js";
export type { Mechanism, Mechanisms, Recordable, Value } from "./encoder.js";
export type { Allowance, Explanation, Question } from "./explain.js";
export { type Caps, type RegistryDocument, RegistryError } from "./registry.js";
export { Collector, type Destination, Unreachable } from "./sending.js";
export type { Statement } from "./statements.js";
export { indexedDbStorage } from "./storage/indexed-db.js";
export { memoryStorage } from "./storage/memory.js";
