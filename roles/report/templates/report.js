"use strict";
// The first cell of a column that holds a number decides that the column is sorted by number; what is empty comes last.
function sortBy(button) {
  const head = button.closest("th");
  const table = head.closest("table");
  const down = head.getAttribute("aria-sort") === "ascending";
  const column = Number(button.dataset.column);
  const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const numeric = rows.every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = numeric ? Number(x) - Number(y) : x.localeCompare(y, "en", { numeric: true });
    return down ? -order : order;
  };
  rows.sort(compare).forEach((row) => body.append(row));
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("th button");
  if (button) sortBy(button);
});
// On paper nothing can be opened.
const closed = [];
addEventListener("beforeprint", () => {
  closed.push(...document.querySelectorAll("details:not([open])"));
  closed.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => closed.splice(0).forEach((details) => { details.open = false; }));
