// A document in memory, gone with the page: for tests and for apps that keep nothing.

import { type Device, type Storage } from "../device.js";

export function memoryStorage(): Storage & { device: Device | null } {
  let isBusy = false;
  return {
    device: null,
    async transaction(work) {
      const { device, result } = work(structuredClone(this.device));
      if (device) this.device = structuredClone(device);
      return result;
    },
    async alone(work) {
      if (isBusy) return null;
      isBusy = true;
      try {
        return await work();
      } finally {
        isBusy = false;
      }
    },
    close() {},
  };
}
