"use strict";
// Sorts and searches the tables of this page. Everything can be read without it.
(() => {
  const asked = new URLSearchParams(location.hash.slice(1));
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const collator = new Intl.Collator(undefined, { numeric: true });

  function sort(table, head, descending) {
    const column = head.cellIndex;
    const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
    const numeric = head.dataset.sorts === "number";
    const compare = numeric ? (a, b) => a - b : (a, b) => collator.compare(a, b);
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort((a, b) => (descending ? compare(b[0], a[0]) : compare(a[0], b[0])));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].querySelectorAll("th[data-sorts]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", `Sort by ${head.textContent.trim()}`);
      head.append(button);
      head.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        sort(table, head, now ? now === "ascending" : head.dataset.sorts === "number");
      });
      if (asked.get("sort") === head.dataset.name) head.click();
    }
  }

  for (const tools of document.querySelectorAll(".tools")) {
    tools.hidden = false;
    const input = tools.querySelector("input");
    const status = tools.querySelector("[role=status]");
    const tables = [...tools.closest("section").querySelectorAll("table.sortable")];
    const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
    const texts = rows.map((row) => plain(row.querySelector("bdi").textContent));
    const search = () => {
      const wanted = plain(input.value.trim());
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !texts[i].includes(wanted);
        shown += !row.hidden;
      });
      for (const table of tables) {
        const folded = table.closest("details.rest");
        const found = [...table.tBodies[0].rows].some((row) => !row.hidden);
        if (folded) folded.open = wanted !== "" && found;
      }
      status.textContent = wanted ? `${shown} of ${rows.length} rows` : "";
    };
    input.addEventListener("input", search);
    if (asked.has("find")) {
      input.value = asked.get("find");
      search();
    }
  }
})();
