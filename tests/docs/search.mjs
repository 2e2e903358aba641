// What the book's own search finds: node search.mjs BOOK reads a JSON list of queries from standard
// input and writes, for each, the pages that it finds, the best first.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInThisContext } from "node:vm";

Object.assign(globalThis, {
  window: globalThis,
  document: { documentElement: { dataset: {} }, getElementById: () => ({ firstChild: null }) },
  _ready: () => undefined, // nothing starts by itself
  _: (text) => text,
  SPHINX_HIGHLIGHT_ENABLED: false,
});
const scripts = ["documentation_options", "base-stemmer", "english-stemmer", "language_data", "searchtools"];
const code = scripts.map((name) => readFileSync(join(process.argv[2], "_static", `${name}.js`), "utf8"));
runInThisContext(`${code.join("\n")}\nglobalThis.Search = Search;`);
runInThisContext(readFileSync(join(process.argv[2], "searchindex.js"), "utf8"));

const queries = JSON.parse(readFileSync(0, "utf8"));
const pages = queries.map((query) => {
  const results = Search._performSearch(...Search._parseQuery(query)).reverse();
  return [...new Set(results.map(([page]) => page))];
});
process.stdout.write(JSON.stringify(pages));
