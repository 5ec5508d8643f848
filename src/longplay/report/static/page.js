"use strict";

// --- figures ----------------------------------------------------------------------
// A figure's data are in the page or at data-source; plotly.min.js is beside it. It is
// drawn when it comes near the window, so that a long page opens at once; all are before
// printing.

const sources = new Map();
for (const source of document.querySelectorAll("script[data-figure]")) {
  const place = document.getElementById(source.dataset.figure);
  const figure = JSON.parse(source.textContent);
  // Room for what will be drawn, so that nothing jumps.
  place.style.minHeight = `${figure.layout.height}px`;
  sources.set(place, figure);
}

const styles = getComputedStyle(document.documentElement);
const colour = (name) => styles.getPropertyValue(name).trim();

// Plotly's own defaults are black on white.
function applyTheme(figure) {
  const { layout, data } = figure;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { ...layout.font, color: colour("--ink") };
  for (const name of Object.keys(layout)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    layout[name].gridcolor = layout[name].zerolinecolor = colour("--grid");
  }
  for (const part of data.flatMap((trace) => [trace.line, trace.marker, trace.error_x])) {
    if (part?.color === "#000000") part.color = colour("--ink");
  }
  return figure;
}

function drawFigure(place) {
  const figure = sources.get(place);
  if (!sources.delete(place)) return;
  place.replaceChildren();
  place.style.minHeight = "";
  const { data, layout } = applyTheme(figure);
  Plotly.newPlot(place, data, layout, { responsive: true, displaylogo: false });
  place.on("plotly_click", (event) => {
    const address = event.points[0].customdata;
    if (address) location.assign(address);
  });
}

const nearby = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawFigure(entry.target);
  },
  { rootMargin: "600px" },
);
for (const place of sources.keys()) nearby.observe(place);
addEventListener("beforeprint", () => [...sources.keys()].forEach(drawFigure));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const place of document.querySelectorAll(".plot.js-plotly-plot")) {
    const figure = applyTheme({ data: place.data, layout: place.layout });
    Plotly.react(place, figure.data, figure.layout);
  }
});

// What a page has of a run in progress: sent with its figure, and with every update.
let positions = null;

async function fetchJson(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status} of ${address}`);
  return response.json();
}

async function loadFigure(place) {
  try {
    const figure = await fetchJson(place.dataset.source);
    positions = figure.next;
    const caption = document.querySelector(`[data-caption="${place.id}"]`);
    if (caption) caption.textContent = figure.caption;
    sources.set(place, figure);
    drawFigure(place);
  } catch {
    place.textContent = "The rows of this run cannot be shown.";
  }
}
document.querySelectorAll(".plot[data-source]").forEach(loadFigure);

// --- tables -----------------------------------------------------------------------
// A click on a heading sorts by it, another one the other way round. Cells without a
// value stay last, and headings of groups first.

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
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    rows.sort((a, b) => {
      const order = compareValues(value(a), value(b));
      const isMissing = value(a) === "" || value(b) === "";
      return isAscending || isMissing ? order : -order;
    });
    body.append(...rows);
  }
}

for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => sortTable(button.closest("th")));
}

// The filter is kept in the address: it survives reloading and the way back.
function filterTable(input) {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const table = document.querySelector(input.dataset.filter);
  for (const row of table.querySelectorAll("tbody tr:not(.group)")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  const address = new URL(location.href);
  if (input.value) address.searchParams.set("q", input.value);
  else address.searchParams.delete("q");
  if (address.href !== location.href) history.replaceState(null, "", address);
}

for (const input of document.querySelectorAll("[data-filter]")) {
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", () => filterTable(input));
  filterTable(input);
}

// --- runs in progress ---------------------------------------------------------------
// A page with data-news asks there every few seconds: for texts to replace, and for
// points to add to its figure. When the version changes, the page is loaded again.

const REFRESH_MS = 3000;

function addPoints(points) {
  const plot = document.querySelector(".plot[data-source].js-plotly-plot");
  if (!plot) return false;
  for (const [key, added] of Object.entries(points)) {
    const trace = plot.data.findIndex((candidate) => candidate.meta === key);
    if (trace < 0) continue;
    const update = Object.fromEntries(
      Object.entries(added).map(([name, values]) => [name, [values]]),
    );
    Plotly.extendTraces(plot, update, [trace]);
  }
  return true;
}

async function followNews(element) {
  let version = null;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    if (document.hidden) continue;
    try {
      const known = positions ? `?${new URLSearchParams(positions)}` : "";
      const news = await fetchJson(element.dataset.news + known);
      for (const [name, text] of Object.entries(news.texts)) {
        const place = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
        if (place) place.textContent = text;
      }
      if (positions && news.points && addPoints(news.points)) positions = news.next;
      version ??= news.version;
      if (news.version !== version) location.reload();
    } catch {
      // The server was stopped, or is busy: the next try may succeed.
    }
  }
}
document.querySelectorAll("[data-news]").forEach(followNews);
