// Memoised reports: one permanent response to a value, and fresh noise about it in every report.

import { message, fromHex, sizeBelow, toBytes } from "./bytes.js";
import type { Content, Encoder } from "./encoder.js";
import type { Memory, Part, Value } from "./kinds.js";
import { type BitSource, digest, indexBelow, keyedBits } from "./randomness.js";

function memorised(encoder: Encoder): [Part, Memory] {
  const [part] = encoder.parts as [Part];
  if (!part.memory) throw new RangeError("the mechanism memoises nothing");
  return [part, part.memory];
}

/** Draw a row and a permanent response to a value, with noise that nothing shares. */
export function drawResponse(encoder: Encoder, value: Value, bits: BitSource): Content {
  const [part, memory] = memorised(encoder);
  const row = indexBelow(bits, part.rows);
  const cell = memory.cell(part.touches(value, row, bits));
  return { row, number: memory.permanent(cell, bits) };
}

/** Draw a report about a permanent response. */
export function reportOf(encoder: Encoder, { row, number }: Content, bits: BitSource): Uint8Array {
  const [, memory] = memorised(encoder);
  return encoder.pack([{ row, number: memory.instantaneous(number, bits) }]);
}

/** Responses that are a function of a secret: the same for values that touch the same columns. */
export class KeyedResponses {
  readonly row: number;
  private readonly secret: Uint8Array;

  /** `metric`: its name and version. With `epoch` the responses are those of that epoch only. */
  constructor(
    private readonly encoder: Encoder,
    secret: Uint8Array,
    private readonly metric = "",
    epoch?: string,
  ) {
    this.secret = epoch === undefined ? secret : digest(secret, message("epoch", epoch));
    const [part, { keyed }] = memorised(encoder);
    this.row = keyed ? keyed.row(this.secret) : indexBelow(this.noise("cohort"), part.rows);
  }

  /** The bytes of the true response: values with the same ones share a permanent response. */
  cell(value: Value): Uint8Array {
    const [part] = memorised(this.encoder);
    return toBytes(this.trueResponse(value), sizeBelow(part.limit));
  }

  response(value: Value): Content {
    const [part, memory] = memorised(this.encoder);
    const cell = this.trueResponse(value);
    if (memory.keyed) {
      return { row: this.row, number: memory.keyed.response(this.secret, this.metric, cell) };
    }
    const noise = this.noise("permanent", toBytes(cell, sizeBelow(part.limit)));
    return { row: this.row, number: memory.permanent(cell, noise) };
  }

  private trueResponse(value: Value): bigint {
    const [part, memory] = memorised(this.encoder);
    // of what is memoised only the answers of a large set are drawn
    const about = (set: Uint8Array) => this.noise("answers", set);
    return memory.cell(part.touches(value, this.row, { about } as BitSource));
  }

  private noise(purpose: string, ...more: Uint8Array[]): BitSource {
    const about = [message(purpose, this.metric), fromHex(this.encoder.fingerprint), ...more];
    return keyedBits(this.secret, ...about);
  }
}
