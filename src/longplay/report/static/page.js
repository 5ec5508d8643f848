"use strict";

// Figures: the page has their data, plotly.min.js is beside it.
for (const source of document.querySelectorAll("script[data-figure]")) {
  const figure = JSON.parse(source.textContent);
  const place = document.getElementById(source.dataset.figure);
  Plotly.newPlot(place, figure.data, figure.layout, {
    responsive: true,
    displaylogo: false,
  });
}

// Tables: a click on a heading sorts by it, another one the other way round. Cells
// without a value stay last.
function compareValues(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
}

function sortTable(heading) {
  const table = heading.closest("table");
  const column = heading.cellIndex;
  const isAscending = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
  const value = (row) => row.cells[column].dataset.value;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const order = compareValues(value(a), value(b));
    const isMissing = value(a) === "" || value(b) === "";
    return isAscending || isMissing ? order : -order;
  });
  table.tBodies[0].append(...rows);
}

for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => sortTable(button.closest("th")));
}
