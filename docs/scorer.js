// The book's search: pages that say how before pages that list everything.
const LISTS = /^(CHANGELOG|RELEASE|docs\/(api|architecture|commands|roadmap|sources|benchmarks|package|wire))$/;
var Scorer = {
  score: ([page, , , , score]) => (LISTS.test(page) ? score - 20 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
