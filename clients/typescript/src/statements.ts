// What a report says, in words for the device's owner. What it names may be made up: it is noisy.

import type { Item } from "./batch.js";
import { range } from "./bytes.js";
import { type Content, type Parameters, seededBits } from "./encoder.js";
import type { Part } from "./kinds.js";
import type { Registry } from "./registry.js";

export interface Statement {
  readonly metric: string;
  readonly version: number;
  /** The answers that the report names, where a list says which there are. */
  readonly answers: readonly string[];
  readonly text: string;
}

const MOST_SHOWN = 5;
const NO_BITS = seededBits(new Uint8Array(0));

function listed(answers: readonly string[], total: number): string {
  const shown = answers.slice(0, MOST_SHOWN).map((answer) => `"${answer}"`);
  const more = answers.length - shown.length;
  const names = [...shown, ...(more ? [`${more} more`] : [])].join(", ") || "none";
  return `names ${names} of ${total} answers`;
}

function said(part: Part, { row, number }: Content, parameters: Parameters) {
  const named = (columns: readonly number[]) =>
    columns.filter((column) => part.vote(number, column) > 0);
  const { categories } = parameters as { categories?: readonly string[] };
  if (!categories?.length) {
    const cells = named(range(part.columns)).length;
    return { answers: [], text: `names ${cells} of the ${part.columns} cells of row ${row}` };
  }
  const isSet = "at_most" in parameters;
  const answers = categories.filter((category) => {
    const columns = part.touches(isSet ? [category] : category, row, NO_BITS);
    const own = isSet && part.size ? columns.slice(0, 1) : columns;
    return part.size || columns.outside ? named(own).length > 0 : named(own).length === own.length;
  });
  return { answers, text: listed(answers, categories.length) };
}

export function statementOf(registry: Registry, item: Item): Statement {
  const { metric: name, version, report } = item;
  const metric = registry.metrics[name];
  const contents = metric?.version === version ? metric.encoder.unpack(report) : null;
  if (!metric || !contents) {
    const text = `${report.length} bytes about a version of the question that is gone`;
    return { metric: name, version, answers: [], text };
  }
  const { parts, parameters } = metric.encoder;
  const members = (parameters.of as Parameters[] | undefined)?.map((of, i) => {
    const { answers, text } = said(joined(parts[i]!, i), contents[i]!, of);
    return { answers, text: `${metric.of![i]}: ${text}` };
  });
  const all = members ?? [said(parts[0]!, contents[0]!, parameters)];
  return {
    ...{ metric: name, version },
    answers: all.flatMap(({ answers }) => answers),
    text: all.map(({ text }) => text).join("; "),
  };
}

/** A member of a joint metric, which is asked about its own value alone. */
const joined = (part: Part, i: number): Part => ({
  ...part,
  touches: (value, row, bits) => part.touches(Object.assign([], { [i]: value }), row, bits),
});
