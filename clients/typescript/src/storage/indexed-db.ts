// The document in IndexedDB: one record of one store. Browsers run transactions that write one after
// the other, whichever tab they come from; "strict" asks for the disk before they are done.

import { checkedDevice, type Storage, StorageError, type Work } from "../device.js";

const STORE = "device";
const RECORD = 0;

/** The database "ldp-telemetry PRODUCT": pages of one origin share it, and products must not.
 * Raises nothing: where storage is blocked or full, transactions reject with StorageError. */
export function indexedDbStorage(product: string): Storage {
  const name = `ldp-telemetry ${product}`;
  let opened: IDBDatabase | null = null;

  const close = (): void => {
    opened?.close();
    opened = null;
  };

  const open = async (mayCreate: boolean): Promise<IDBDatabase | null> => {
    if (opened) return opened;
    return new Promise((resolve, reject) => {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () => {
        // before the owner agreed nothing is written, not even an empty database
        if (mayCreate) request.result.createObjectStore(STORE);
        else request.transaction!.abort();
      };
      request.onsuccess = () => {
        opened = request.result;
        opened.onversionchange = opened.onclose = close;
        resolve(opened);
      };
      request.onerror = () =>
        !mayCreate && request.error?.name === "AbortError"
          ? resolve(null)
          : reject(request.error);
    });
  };

  const inTransaction = <T>(database: IDBDatabase, work: Work<T>, isDurable: boolean): Promise<T> =>
    new Promise((resolve, reject) => {
      const durability = isDurable ? "strict" : "relaxed";
      const transaction = database.transaction(STORE, "readwrite", { durability });
      const store = transaction.objectStore(STORE);
      let done: { result: T };
      let failure: unknown;
      const request = store.get(RECORD);
      request.onsuccess = () => {
        try {
          const { device, result } = work(checkedDevice(request.result));
          done = { result };
          if (device) store.put(device, RECORD);
        } catch (error) {
          failure = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(done.result);
      transaction.onabort = () => reject(failure ?? transaction.error);
    });

  return {
    async transaction(work, isDurable) {
      try {
        const database = await open(false);
        if (database) return await inTransaction(database, work, isDurable);
        const { device, result } = work(null);
        return device ? await inTransaction((await open(true))!, work, isDurable) : result;
      } catch (error) {
        if (!(error instanceof DOMException)) throw error;
        close(); // the browser may have lost the connection: the next transaction has another
        throw new StorageError(`the browser's storage cannot be used: ${error.name}`);
      }
    },
    alone: (work) =>
      globalThis.navigator?.locks
        ? navigator.locks.request(`${name} upload`, { ifAvailable: true }, (lock) =>
            lock ? work() : null,
          )
        : work(),
    close,
  };
}
