// The document in a SQLite file, for Node 22.13 or newer: one row, whole transactions or none.

import { chmodSync, statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { deserialize, serialize } from "node:v8";
import { checkedDevice, type Storage, StorageError } from "../device.js";

const APPLICATION = 0x6c647074;
const SCHEMA = "CREATE TABLE device (id INTEGER PRIMARY KEY CHECK (id = 0), content BLOB NOT NULL)";

/** `path`: made when consent is given. Processes may share it. Throws StorageError before Node 22.13. */
export function sqliteStorage(path: string): Storage {
  const sqlite = process.getBuiltinModule?.("node:sqlite"); // an import would fail without a word of why
  if (!sqlite) {
    throw new StorageError(`sqliteStorage needs Node 22.13 or newer; this is ${process.versions.node}`);
  }
  let opened: DatabaseSync | null = null;
  let openedFile = "";
  let isSending = false;

  /** What identifies the file at the path; "" where there is none. */
  const identify = (): string => {
    const status = statSync(path, { bigint: true, throwIfNoEntry: false });
    return status ? `${status.dev} ${status.ino}` : "";
  };

  const close = (): void => {
    opened?.close();
    opened = null;
  };

  const open = (): DatabaseSync => {
    const file = identify();
    if (opened && !file) throw new StorageError(`${path}: the device's file was deleted while it was open`);
    if (file !== openedFile) close();
    if (opened) return opened;
    const database = new sqlite.DatabaseSync(path);
    try {
      if (!file) chmodSync(path, 0o600);
      database.exec("PRAGMA busy_timeout = 250; PRAGMA secure_delete = ON");
      database.exec("BEGIN IMMEDIATE");
      const [tables] = database.prepare("SELECT count(*) AS n FROM sqlite_master").all();
      if (!tables!.n) database.exec(`${SCHEMA}; PRAGMA application_id = ${APPLICATION}`);
      const [id] = database.prepare("PRAGMA application_id").all();
      if (id!.application_id !== APPLICATION) throw new StorageError(`${path}: not a device's file`);
      database.exec("COMMIT");
    } catch (error) {
      database.close();
      throw error;
    }
    openedFile = file || identify();
    return (opened = database);
  };

  return {
    async transaction(work, isDurable) {
      try {
        if (!opened && !identify()) {
          const { device, result } = work(null);
          if (!device) return result;
        }
        const database = open();
        database.exec(`PRAGMA synchronous = ${isDurable ? "FULL" : "NORMAL"}`);
        database.exec("BEGIN IMMEDIATE");
        try {
          const row = database.prepare("SELECT content FROM device").get();
          const kept = row ? deserialize(row.content as Uint8Array) : null;
          const { device, result } = work(checkedDevice(kept));
          if (device) {
            const write = database.prepare("INSERT OR REPLACE INTO device VALUES (0, ?)");
            write.run(serialize(device));
          }
          database.exec("COMMIT");
          return result;
        } catch (error) {
          try {
            database.exec("ROLLBACK");
          } catch {} // SQLite did already, as on a full disk
          throw error;
        }
      } catch (error) {
        const { code, syscall, message } = error as NodeJS.ErrnoException;
        const isOfFile = code === "ERR_SQLITE_ERROR" || syscall; // SQLite's, or the system's
        if (error instanceof StorageError || !isOfFile) throw error;
        throw new StorageError(`${path}: the device's file cannot be used: ${message}`, /locked/.test(message));
      }
    },
    async alone(work) {
      if (isSending) return null;
      isSending = true;
      try {
        return await work();
      } finally {
        isSending = false;
      }
    },
    close,
  };
}
