"use strict";
// Sorts and filters every table with the class "sortable". Without this script they are plain tables.
{
  const collator = new Intl.Collator("en", { numeric: true });
  const chosen = new Map(); // by the id of the table, for a table may be replaced by a fresh one
  const choiceOf = (table) => {
    if (!chosen.has(table.id)) chosen.set(table.id, { words: "" });
    return chosen.get(table.id);
  };

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
    const { column, descending, words } = choiceOf(table);
    const body = table.tBodies[0];
    if (column !== undefined) {
      const rows = [...body.rows].sort((a, b) => compare(value(a, column), value(b, column)));
      body.append(...(descending ? rows.reverse() : rows));
      for (const heading of table.tHead.rows[0].cells) {
        if (heading.cellIndex !== column) heading.removeAttribute("aria-sort");
        else heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      }
    }
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    const counter = document.getElementById(`${table.id}-count`);
    if (counter) counter.textContent = wanted.length ? `${shown} of ${body.rows.length}` : "";
  };

  const addSorting = (table) => {
    for (const heading of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.id = `${table.id}-sort-${heading.cellIndex}`;
      button.append(...heading.childNodes);
      heading.append(button);
      const largestFirst = ["number", "load"].some((kind) => heading.classList.contains(kind));
      button.addEventListener("click", () => {
        const choice = choiceOf(table);
        const again = choice.column === heading.cellIndex;
        choice.descending = again ? !choice.descending : largestFirst;
        choice.column = heading.cellIndex;
        arrange(table);
      });
    }
  };

  const addFilter = (table) => {
    const bar = document.createElement("div");
    bar.className = "filter";
    const label = document.createElement("label");
    const box = document.createElement("input");
    Object.assign(box, { type: "search", id: `${table.id}-filter`, value: choiceOf(table).words });
    box.placeholder = "words to look for";
    label.append("Filter ", box);
    const counter = document.createElement("span");
    Object.assign(counter, { className: "muted", id: `${table.id}-count` });
    counter.setAttribute("aria-live", "polite");
    bar.append(label, counter);
    table.closest(".scroll").before(bar);
    box.addEventListener("input", () => {
      choiceOf(table).words = box.value;
      arrange(table);
    });
  };

  const prepare = () => {
    for (const table of document.querySelectorAll("table.sortable:not([data-prepared])")) {
      table.dataset.prepared = "";
      addSorting(table);
      if (table.dataset.filter !== undefined) addFilter(table);
      arrange(table);
    }
  };
  prepare();
  document.addEventListener("page-changed", prepare);
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
}
