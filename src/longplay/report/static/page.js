"use strict";

// Figures: the page has their data, plotly.min.js is beside it. A figure is drawn when it
// comes near the window, so that a long page opens at once; all are before printing.
const sources = new Map();
for (const source of document.querySelectorAll("script[data-figure]")) {
  sources.set(document.getElementById(source.dataset.figure), source);
}

function drawFigure(place) {
  const source = sources.get(place);
  if (!sources.delete(place)) return;
  const figure = JSON.parse(source.textContent);
  place.style.minHeight = "";
  Plotly.newPlot(place, figure.data, figure.layout, {
    responsive: true,
    displaylogo: false,
  });
}

const nearby = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawFigure(entry.target);
  },
  { rootMargin: "600px" },
);
for (const [place, source] of sources) {
  // Room for what will be drawn, so that nothing jumps.
  place.style.minHeight = `${JSON.parse(source.textContent).layout.height}px`;
  nearby.observe(place);
}
addEventListener("beforeprint", () => [...sources.keys()].forEach(drawFigure));

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
