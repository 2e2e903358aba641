"use strict";
// Sorts, searches and folds the tables of this page, and gives back the CSV files that it was made
// of. Everything can be read without it.
(() => {
  const FIRST = document.querySelectorAll("section.several").length > 1 ? 10 : 25;
  const asked = new URLSearchParams(location.hash.slice(1));
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const collator = new Intl.Collator(undefined, { numeric: true });
  const tables = [...document.querySelectorAll("table.sortable")];
  const texts = new Map();
  const searched = new Map();
  const unfolded = new Set();

  function addButton(parent, text, onClick) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", onClick);
    parent.append(button);
    return button;
  }

  function textOf(row) {
    if (!texts.has(row)) texts.set(row, plain(row.textContent));
    return texts.get(row);
  }

  // Shows the rows that are searched for; without a search the first of them, or all.
  function show(table) {
    const wanted = searched.get(table) ?? "";
    const most = wanted || unfolded.has(table) ? Infinity : FIRST;
    const rows = [...table.tBodies[0].rows];
    let found = 0;
    for (const row of rows) {
      const fits = !wanted || textOf(row).includes(wanted);
      row.hidden = !fits || found >= most;
      found += fits;
    }
    if (rows.length <= FIRST) return found;
    let shown = table.nextElementSibling;
    if (!shown?.classList.contains("shown")) {
      shown = document.createElement("p");
      shown.className = "shown";
      table.after(shown);
    }
    shown.hidden = wanted !== "";
    const isAll = unfolded.has(table);
    const all = rows.length.toLocaleString("en");
    shown.textContent = isAll ? `All ${all} rows are shown.` : `The first ${FIRST} of ${all} rows are shown.`;
    addButton(shown, isAll ? `Show the first ${FIRST}` : `Show all ${all}`, () => {
      isAll ? unfolded.delete(table) : unfolded.add(table);
      show(table);
      table.nextElementSibling.querySelector("button").focus({ preventScroll: true });
    });
    return found;
  }

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
    show(table);
  }

  for (const table of tables) {
    for (const head of table.tHead.rows[0].querySelectorAll("th[data-sorts]")) {
      const text = head.textContent.trim();
      addButton(head, "", () => {}).setAttribute("aria-label", `Sort by ${text}`);
      head.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        sort(table, head, now ? now === "ascending" : head.dataset.sorts === "number");
      });
      if (asked.has("sort") && asked.get("sort") === head.dataset.name) head.click();
    }
    show(table);
  }

  for (const tools of document.querySelectorAll(".tools")) {
    tools.hidden = false;
    const input = tools.querySelector("input[type=search]");
    const status = tools.querySelector("[role=status]");
    const near = tables.filter((table) => tools.closest("section").contains(table));
    const search = () => {
      let found = 0, all = 0;
      for (const table of near) {
        searched.set(table, plain(input.value.trim()));
        const here = show(table);
        const folded = table.closest("details.rest");
        if (folded) folded.open = input.value.trim() !== "" && here > 0;
        found += here;
        all += table.tBodies[0].rows.length;
      }
      const more = Number(tools.dataset.more);
      status.textContent = input.value.trim()
        ? `${found} of ${all} rows${more ? `; ${more.toLocaleString("en")} more are only in the CSV file` : ""}`
        : "";
    };
    input.addEventListener("input", search);
    if (asked.has("find")) {
      input.value = asked.get("find");
      search();
    }
    tools.querySelector(".scale")?.addEventListener("change", (event) => {
      for (const table of near) {
        table.classList.toggle("roots", event.target.checked);
        const axis = table.querySelector("[data-other]");
        if (axis) [axis.textContent, axis.dataset.other] = [axis.dataset.other, axis.textContent];
      }
    });
  }

  addEventListener("beforeprint", () => {
    for (const claims of document.querySelectorAll("details.claims")) claims.open = true;
  });

  for (const button of document.querySelectorAll("button.download")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const packed = Uint8Array.from(atob(button.dataset.csv), (letter) => letter.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await new Response(stream).blob());
      link.download = button.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
  }
})();
