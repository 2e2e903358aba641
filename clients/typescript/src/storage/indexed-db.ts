// The document in IndexedDB: one record of one store. Browsers run transactions that write one after
// the other, whichever tab they come from; "strict" asks for the disk before they are done.

import { checkedDevice, type Storage, StorageError, type Work } from "../device.js";

const STORE = "device";
const RECORD = 0;

/** The database "ldp-telemetry PRODUCT": pages of one origin share it, and products must not.
 * Raises nothing: where storage is blocked or full, transactions reject with StorageError. */
export function indexedDbStorage(product: string): Storage {
  const name = `ldp-telemetry ${product}`;
  let opened = Promise.resolve<IDBDatabase | null>(null);

  const close = (): void => {
    void opened.catch(() => null).then((database) => database?.close());
    opened = Promise.resolve(null);
  };

  const connect = (mayCreate: boolean): Promise<IDBDatabase | null> =>
    new Promise((resolve, reject) => {
      const request = globalThis.indexedDB?.open(name, 1);
      if (!request) throw new StorageError("no IndexedDB");
      request.onupgradeneeded = () => {
        // before the owner agreed nothing is written, not even an empty database
        if (mayCreate) request.result.createObjectStore(STORE);
        else request.transaction!.abort();
      };
      request.onsuccess = () => {
        request.result.onversionchange = request.result.onclose = close;
        resolve(request.result);
      };
      request.onerror = () =>
        mayCreate || request.error?.name !== "AbortError" ? reject(request.error) : resolve(null);
    });

  /** One connection, however many transactions begin at once: nothing closes another. */
  const open = (mayCreate: boolean): Promise<IDBDatabase | null> =>
    (opened = opened.catch(() => null).then((database) => database ?? connect(mayCreate)));

  const inTransaction = <T>(database: IDBDatabase, work: Work<T>, isDurable: boolean): Promise<T> =>
    new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, "readwrite", {
        durability: isDurable ? "strict" : "relaxed",
      });
      const store = transaction.objectStore(STORE);
      let done: T;
      const request = store.get(RECORD);
      request.onsuccess = () => {
        try {
          const { device, result } = work(checkedDevice(request.result));
          done = result;
          if (device) store.put(device, RECORD);
        } catch (error) {
          reject(error);
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(done);
      transaction.onabort = () => reject(transaction.error);
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
      globalThis.navigator?.locks?.request(`${name} upload`, { ifAvailable: true }, (lock) =>
        lock ? work() : null,
      ) ?? work(),
    close,
  };
}
