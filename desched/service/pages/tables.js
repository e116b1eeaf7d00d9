"use strict";
// Sorts and filters every table with the class "sortable". Without this script they are plain tables.
{
  const collator = new Intl.Collator("en", { numeric: true });
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    const bothNumbers = a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y);
    return bothNumbers ? x - y : collator.compare(a, b);
  };

  const arrange = (table) => {
    const { column, descending } = table.order ?? {};
    const body = table.tBodies[0];
    if (column !== undefined) {
      const rows = [...body.rows].sort((a, b) => compare(value(a, column), value(b, column)));
      body.append(...(descending ? rows.reverse() : rows));
    }
    const wanted = (table.filterBox?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    if (table.counter) {
      table.counter.textContent = wanted.length ? `${shown} of ${body.rows.length}` : "";
    }
  };

  const addSorting = (table) => {
    for (const heading of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const descending =
          table.order?.column === heading.cellIndex
            ? !table.order.descending
            : heading.classList.contains("number") || heading.classList.contains("load");
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
        table.order = { column: heading.cellIndex, descending };
        arrange(table);
      });
    }
  };

  const addFilter = (table) => {
    const bar = document.createElement("div");
    bar.className = "filter";
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "words to look for";
    label.append("Filter ", box);
    const counter = document.createElement("span");
    counter.className = "muted";
    counter.setAttribute("aria-live", "polite");
    bar.append(label, counter);
    table.closest(".scroll").before(bar);
    box.addEventListener("input", () => arrange(table));
    Object.assign(table, { filterBox: box, counter });
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    addSorting(table);
    if (table.dataset.filter !== undefined) addFilter(table);
    table.addEventListener("rows-changed", () => arrange(table));
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
}
