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

// Colours that are too dark on a dark page.
const lighter = { "#000000": "#e8e8e8", "#0072B2": "#6c8cff" };
const darker = Object.fromEntries(Object.entries(lighter).map(([a, b]) => [b, a]));

// Cells of states and games: from the colour of the page to blue.
const DARK_CELLS = [[0, "#1f2a33"], [1, "#5cb3ec"]];
const LIGHT_CELLS = [[0, "#f7fbff"], [0.5, "#6baed6"], [1, "#08306b"]];

// Plotly's own defaults are black on white.
function applyTheme(figure) {
  const { layout, data } = figure;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { ...layout.font, color: colour("--ink") };
  for (const name of Object.keys(layout)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    layout[name].gridcolor = layout[name].zerolinecolor = colour("--grid");
  }
  const isPrinting = document.documentElement.classList.contains("printing");
  const isDark = !isPrinting && matchMedia("(prefers-color-scheme: dark)").matches;
  const replaced = isDark ? lighter : darker;
  for (const part of data.flatMap((trace) => [trace.line, trace.marker, trace.error_x, trace.error_y])) {
    if (part?.color in replaced) part.color = replaced[part.color];
  }
  for (const trace of data) {
    if (trace.type === "heatmap") trace.colorscale = isDark ? DARK_CELLS : LIGHT_CELLS;
  }
  return figure;
}

// On a narrow screen, panels side by side keep a readable width and the figure scrolls.
const PANEL_PX = 210;
const NARROW_PX = 600;
// Of the names of visits.
const LETTER_PX = 5.5;
const LINE_PX = 12;

function fitWidth(place, layout) {
  const axes = Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name));
  const columns = new Set(axes.map((name) => layout[name].domain?.[0])).size;
  place.style.minWidth = columns > 1 ? `${columns * PANEL_PX}px` : "";
  if (innerWidth >= NARROW_PX) return;
  layout.dragmode = false; // a finger scrolls the page
  if (columns < 2) Object.assign(layout.margin, { l: 56, r: 8 });
}

// A narrow legend has more rows than the figure has room for above its titles.
const ONE_ROW_PX = 24;
const MOST_NAMES = 4;

function fitLegend({ data, layout }) {
  const names = data.filter((trace) => trace.showlegend).length;
  if (innerWidth >= NARROW_PX || layout.showlegend === false || names <= MOST_NAMES) return;
  layout.margin.t += ONE_ROW_PX;
  layout.height += ONE_ROW_PX;
}

// Names of visits: sideways where a visit is narrow, and none where there is no room.
function fitLabels(place, layout) {
  const shapes = layout.shapes ?? [];
  const end = Math.max(0, ...shapes.map((shape) => shape.x1));
  const [from, to] = layout.xaxis?.range ?? [0, end];
  const width = place.clientWidth - layout.margin.l - layout.margin.r;
  for (const label of layout.annotations ?? []) {
    const visit = shapes.find((shape) => shape.xref === label.xref && shape.x0 === label.x);
    if (!visit) continue;
    label.x = Math.max(visit.x0, from);
    const room = ((Math.min(visit.x1, to) - label.x) / (to - from)) * width;
    label.textangle = label.text.length * LETTER_PX < room ? 0 : 90;
    label.visible = room > LINE_PX;
  }
}

function fitFigure(place, figure) {
  fitWidth(place, figure.layout);
  fitLabels(place, figure.layout);
  fitLegend(figure);
  return applyTheme(figure);
}

function drawFigure(place) {
  const figure = sources.get(place);
  if (!sources.delete(place)) return;
  place.replaceChildren();
  place.style.minHeight = "";
  const { data, layout } = fitFigure(place, figure);
  Plotly.newPlot(place, data, layout, { responsive: true, displaylogo: false });
  place.on("plotly_click", (event) => {
    const address = event.points[0].customdata;
    if (address) location.assign(address);
  });
}

const nearby = new IntersectionObserver(
  (entries) => {
    // One after the other: the first is on the screen before the next is drawn.
    for (const entry of entries) if (entry.isIntersecting) setTimeout(drawFigure, 0, entry.target);
  },
  { rootMargin: "600px" },
);
for (const place of sources.keys()) nearby.observe(place);

function repaint() {
  for (const place of document.querySelectorAll(".plot.js-plotly-plot")) {
    const figure = applyTheme({ data: place.data, layout: place.layout });
    Plotly.react(place, figure.data, figure.layout);
  }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

// Paper is white, and about as wide as this.
const PAPER_PX = 690;

addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  [...sources.keys()].forEach(drawFigure);
  repaint();
  for (const place of document.querySelectorAll(".plot")) {
    place.style.zoom = Math.min(1, PAPER_PX / place.clientWidth);
  }
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  for (const place of document.querySelectorAll(".plot")) place.style.zoom = "";
  repaint();
});

// What a page has of a run in progress: sent with its figure, and with every update.
let positions = null;

async function fetchJson(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(await readProblem(response));
  return response.json();
}

// An error is a page, too.
async function readProblem(response) {
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  return page.querySelector(".problem")?.textContent ?? `${response.status}`;
}

// --- the timeline of a run --------------------------------------------------------
// What is visible is asked for in finer bins. Its frames are in the address: they survive
// reloading and the way back.

const TABLE_ROWS = 600;
// Room above and below what is shown, as a share of its height.
const HEADROOM = 0.06;

// The heights of what is visible: points outside of the part do not count.
function fitHeights({ data, layout }, [from, to]) {
  const heights = {};
  for (const trace of data) {
    const axis = (trace.yaxis ?? "y").replace("y", "yaxis");
    const shown = trace.y.filter((y, n) => y !== null && trace.x[n] >= from && trace.x[n] <= to);
    (heights[axis] ??= []).push(...shown);
  }
  for (const [axis, values] of Object.entries(heights)) {
    if (!values.length) continue;
    const low = values.reduce((a, b) => Math.min(a, b));
    const high = values.reduce((a, b) => Math.max(a, b));
    const room = HEADROOM * (high - low || Math.abs(high) || 1);
    layout[axis].range = [low - room, high + room];
  }
}

class Timeline {
  constructor(place) {
    this.place = place;
    this.form = document.querySelector(`[data-zoom="${place.id}"]`);
    this.numbers = document.querySelector(`[data-numbers="${place.id}"]`);
    this.csv = this.form.querySelector("a");
    this.total = Number(this.form.elements.to.max);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.show(Number(this.form.elements.from.value), Number(this.form.elements.to.value));
    });
    this.form.addEventListener("reset", (event) => {
      event.preventDefault();
      this.show(0, this.total);
    });
    this.numbers.addEventListener("toggle", () => this.fillTable());
    const given = new URLSearchParams(location.search);
    this.show(Number(given.get("from")), Number(given.get("to")));
  }

  // Shows some frames; the whole run if there are none.
  async show(from, to) {
    const isPart = from < to && (from > 0 || to < this.total);
    this.range = isPart ? [Math.max(from, 0), Math.min(to, this.total)] : [0, this.total];
    [this.form.elements.from.value, this.form.elements.to.value] = this.range;
    const query = isPart ? `?from=${this.range[0]}&to=${this.range[1]}` : "";
    this.csv.search = query;
    this.keep(isPart);
    const { range, place } = this;
    try {
      const figure = await fetchJson(place.dataset.source + query);
      if (this.range === range) this.draw(figure); // else another part was chosen
    } catch (error) {
      place.textContent = `The rows of this run cannot be shown: ${error.message}`;
    }
  }

  isPart() {
    return this.range[0] > 0 || this.range[1] < this.total;
  }

  keep(isPart) {
    const address = new URL(location.href);
    for (const [n, name] of ["from", "to"].entries()) {
      if (isPart) address.searchParams.set(name, this.range[n]);
      else address.searchParams.delete(name);
    }
    if (address.href !== location.href) history.replaceState(null, "", address);
  }

  draw(figure) {
    const { place } = this;
    positions = figure.next;
    document.querySelector(`[data-caption="${place.id}"]`).textContent = figure.caption;
    for (const name of Object.keys(figure.layout)) {
      if (/^xaxis\d*$/.test(name)) figure.layout[name].range = [...this.range];
    }
    if (this.isPart()) fitHeights(figure, this.range);
    if (place.classList.contains("js-plotly-plot")) {
      const { data, layout } = fitFigure(place, figure);
      Plotly.react(place, data, layout);
    } else {
      sources.set(place, figure);
      drawFigure(place);
      place.on("plotly_relayout", (change) => this.follow(change));
    }
    this.fillTable();
  }

  // Zoomed by hand; a change of the size is not.
  follow(change) {
    if (!Object.keys(change).some((name) => name.startsWith("xaxis"))) return;
    const isWhole = Object.keys(change).some((name) => name.endsWith("autorange"));
    const [from, to] = isWhole ? [0, this.total] : this.place.layout.xaxis.range;
    this.show(Math.floor(from), Math.ceil(to));
  }

  fillTable() {
    if (!this.numbers.open || !this.place.data) return;
    const [from, to] = this.range;
    const points = this.place.data.filter((trace) => trace.meta).flatMap((trace) =>
      trace.x.map((x, n) => [trace.meta.replace("metric:", ""), x, trace.y[n], trace.customdata?.[n]]),
    );
    const visible = points.filter(([, x, y]) => y !== null && x >= from && x <= to);
    const count = visible.length.toLocaleString("en");
    const isCut = visible.length > TABLE_ROWS;
    this.numbers.querySelector("caption").textContent = isCut
      ? `the first ${TABLE_ROWS} of ${count} numbers; zoom in for others, or take the CSV file`
      : `${count} numbers`;
    const rows = visible.slice(0, TABLE_ROWS).map(([name, x, y, address]) => {
      const row = document.createElement("tr");
      row.append(makeCell(name), makeCell(x.toLocaleString("en"), address), makeCell(Number(y.toPrecision(6))));
      row.cells[0].className = "name";
      return row;
    });
    this.numbers.querySelector("tbody").replaceChildren(...rows);
  }
}

function makeCell(text, address) {
  const cell = document.createElement("td");
  const link = address ? cell.appendChild(document.createElement("a")) : cell;
  if (address) link.href = address;
  link.textContent = text;
  return cell;
}

for (const place of document.querySelectorAll(".plot[data-source]")) new Timeline(place);

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
  for (const body of table.tBodies) {
    const rows = [...body.querySelectorAll("tr:not(.group)")];
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    body.hidden = rows.every((row) => row.hidden); // its heading, too
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

// A box that ticks all rows that the filter shows.
for (const box of document.querySelectorAll("[data-tick]")) {
  const table = document.querySelector(box.dataset.tick);
  box.addEventListener("change", () => {
    for (const other of table.querySelectorAll("tbody input[type=checkbox]:enabled")) {
      if (other.checkVisibility()) other.checked = box.checked;
    }
  });
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
      const asked = positions;
      const known = asked ? `?${new URLSearchParams(asked)}` : "";
      const news = await fetchJson(element.dataset.news + known);
      for (const [name, text] of Object.entries(news.texts)) {
        const place = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
        if (place) place.textContent = text;
      }
      // A figure that was loaded meanwhile has these points already.
      const isNext = asked && asked === positions && news.points;
      if (isNext && addPoints(news.points)) positions = news.next;
      version ??= news.version;
      if (news.version !== version) location.reload();
    } catch {
      // The server was stopped, or is busy: the next try may succeed.
    }
  }
}
document.querySelectorAll("[data-news]").forEach(followNews);

// --- an episode, frame by frame -----------------------------------------------------
// Frames come in chunks, one after the other, so that the server replays them in order:
// a picture of frames one below the other, and the rows of the log.

const KEPT_CHUNKS = 24;
const CHART_ROWS = 90;
const CHART_EVERY_MS = 250;

class Player {
  constructor(root) {
    this.root = root;
    const numbers = ["first", "end", "frame", "fps", "chunk"];
    for (const name of numbers) this[name] = Number(root.dataset[name]);
    this.actions = root.dataset.actions.split(" ");
    this.address = `/runs/${root.dataset.run}/frames`;
    this.canvas = root.querySelector("canvas");
    this.context = this.canvas.getContext("2d");
    this.chunks = new Map();
    this.queue = Promise.resolve();
    this.isPlaying = false;
    this.chartDue = 0;
    const metrics = document.getElementById("metrics");
    this.metrics = metrics ? JSON.parse(metrics.textContent) : {};
    this.connect();
    this.show(this.frame);
  }

  role(name) {
    return document.querySelector(`[data-role="${name}"]`);
  }

  connect() {
    const steps = { first: () => this.first, back: () => this.frame - 1, next: () => this.frame + 1 };
    for (const [name, target] of Object.entries(steps)) {
      const button = this.root.querySelector(`[data-do="${name}"]`);
      button.addEventListener("click", () => this.seek(target()));
    }
    this.playButton = this.root.querySelector('[data-do="play"]');
    this.playButton.addEventListener("click", () => this.toggle());
    for (const name of ["slider", "number"]) {
      this.role(name).addEventListener("input", (event) => {
        if (event.target.value !== "") this.seek(Number(event.target.value));
      });
    }
    addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    // Fields use these keys themselves; the slider may move by our steps.
    if (event.target.matches("input[type=number], select, summary")) return;
    if (event.target.matches("button, a") && [" ", "Enter"].includes(event.key)) return;
    const step = event.shiftKey ? 10 : 1;
    const targets = {
      ArrowLeft: this.frame - step,
      ArrowRight: this.frame + step,
      Home: this.first,
      End: this.end - 1,
    };
    if (event.key === " ") this.toggle();
    else if (event.key in targets) this.seek(targets[event.key]);
    else return;
    event.preventDefault();
  }

  toggle() {
    this.isPlaying = !this.isPlaying;
    this.playButton.textContent = this.isPlaying ? "❚❚ pause" : "▶ play";
    if (!this.isPlaying) return this.show(this.frame);
    if (this.frame >= this.end - 1) this.frame = this.first;
    this.clock = null;
    requestAnimationFrame((now) => this.tick(now));
  }

  seek(frame) {
    if (this.isPlaying) this.toggle();
    this.show(Math.min(Math.max(frame, this.first), this.end - 1));
  }

  async tick(now) {
    if (!this.isPlaying) return;
    const speed = Number(this.role("speed").value);
    this.clock ??= { time: now, frame: this.frame, speed };
    if (this.clock.speed !== speed) this.clock = { time: now, frame: this.frame, speed };
    const passed = ((now - this.clock.time) / 1000) * this.fps * speed;
    const target = Math.min(this.clock.frame + Math.floor(passed), this.end - 1);
    if (target !== this.frame) {
      const waited = !this.chunks.get(this.chunkOf(target))?.isReady;
      await this.show(target);
      if (waited) this.clock = null; // time spent waiting is not played
    }
    if (this.frame >= this.end - 1 && this.isPlaying) this.toggle();
    else requestAnimationFrame((next) => this.tick(next));
  }

  chunkOf(frame) {
    return Math.floor((frame - this.first) / this.chunk);
  }

  // One request after the other, the chunk shown before those ahead of it.
  load(number) {
    const start = this.first + number * this.chunk;
    if (number < 0 || start >= this.end) return null;
    if (!this.chunks.has(number)) {
      const end = Math.min(start + this.chunk, this.end);
      const entry = { isReady: false, start };
      entry.done = this.queue.then(() => {
        // Passed by while the slider moved: replaying it would delay the one chosen.
        if (Math.abs(number - this.chunkOf(this.frame)) > 2) throw new Error("passed by");
        return this.fetchChunk(entry, end);
      });
      this.queue = entry.done.catch(() => this.chunks.delete(number));
      this.chunks.set(number, entry);
    }
    return this.chunks.get(number);
  }

  async fetchChunk(entry, end) {
    const query = `?from=${entry.start}&to=${end}`;
    const response = await fetch(`${this.address}.png${query}`);
    if (!response.ok) throw new Error(await readProblem(response));
    entry.picture = await createImageBitmap(await response.blob());
    const found = await fetchJson(`${this.address}.json${query}`);
    entry.texts = found.rows;
    entry.rows = found.rows.map((text) => JSON.parse(text));
    entry.returns = found.returns;
    entry.isReady = true;
    if (!this.isPlaying && this.canvas.dataset.shown) this.drawChart();
  }

  async show(frame) {
    this.frame = frame;
    const number = this.chunkOf(frame);
    // Before it, not after it: the server would have to start the visit again.
    if (!this.chunks.has(number)) this.load(number - 1);
    const chunk = this.load(number);
    for (const near of [number + 1, number + 2]) this.load(near);
    this.forget(number);
    if (!chunk.isReady) this.role("status").textContent = "Replaying …";
    try {
      await chunk.done;
    } catch (error) {
      if (this.frame !== frame) return;
      this.role("status").textContent = `This cannot be replayed: ${error.message}`;
      return;
    }
    if (this.frame !== frame) return; // another one was chosen meanwhile
    this.role("status").textContent = "";
    this.draw(chunk, frame);
  }

  forget(number) {
    for (const other of this.chunks.keys()) {
      if (this.chunks.size <= KEPT_CHUNKS) return;
      if (Math.abs(other - number) > 2) this.chunks.delete(other);
    }
  }

  draw(chunk, frame) {
    const { width, height } = this.canvas;
    const n = frame - chunk.start;
    this.context.drawImage(chunk.picture, 0, n * height, width, height, 0, 0, width, height);
    const row = chunk.rows[n];
    const facts = {
      frame: `${frame.toLocaleString("en")} (${(frame - this.first).toLocaleString("en")} from the start)`,
      reward: row.reward,
      return: chunk.returns[n],
      lives: row.lives,
      decided: this.nameAction(row.decided_action_idx) + (row.is_decision_frame ? ", decided now" : ""),
      applied: this.nameAction(row.applied_action_idx),
      prediction: row.prediction,
      target: row.target,
    };
    for (const [name, value] of Object.entries(facts)) {
      const place = this.root.querySelector(`[data-fact="${name}"]`);
      if (place) place.textContent = value;
    }
    this.showMetrics(frame);
    this.role("row").textContent = chunk.texts[n];
    this.role("slider").value = frame;
    if (document.activeElement !== this.role("number")) this.role("number").value = frame;
    this.canvas.dataset.shown = frame;
    if (this.isPlaying) {
      if (performance.now() > this.chartDue) this.drawChart();
      return;
    }
    const address = new URL(location.href);
    address.searchParams.set("frame", frame);
    history.replaceState(null, "", address);
    this.role("permalink").href = address;
    this.drawChart();
  }

  // Of the window that the frame belongs to; windows are named by their last frame.
  showMetrics(frame) {
    for (const place of this.root.querySelectorAll("[data-metric]")) {
      const { ends, values } = this.metrics[place.dataset.metric];
      const value = values[ends.findIndex((end) => end >= frame)];
      place.textContent = value === undefined ? "–" : Number(value.toPrecision(5));
    }
  }

  nameAction(index) {
    return `${index} ${this.actions[index] ?? ""}`;
  }

  rowsAround() {
    const rows = [];
    for (let frame = this.frame - CHART_ROWS; frame <= this.frame + CHART_ROWS; frame += 1) {
      const chunk = this.chunks.get(this.chunkOf(frame));
      const row = chunk?.rows?.[frame - chunk.start];
      if (row) rows.push(row);
    }
    return rows;
  }

  drawChart() {
    this.chartDue = performance.now() + CHART_EVERY_MS;
    const rows = this.rowsAround();
    const x = rows.map((row) => row.global_frame_idx);
    const line = (name, key, axis, dash, colour) => ({
      name, x, y: rows.map((row) => row[key]), yaxis: axis, type: "scatter", mode: "lines",
      line: { shape: "hv", dash, width: 1.5, color: colour },
    });
    const data = [
      { ...line("reward", "reward", "y4"), type: "bar", width: 1, marker: { color: "#009E73" } },
      line("lives", "lives", "y3", "solid", "#CC79A7"),
      line("decided", "decided_action_idx", "y2", "dot", "#E69F00"),
      line("applied", "applied_action_idx", "y2", "solid", "#0072B2"),
    ];
    const isPrediction = rows[0]?.prediction !== undefined;
    if (isPrediction) {
      data.push(line("prediction", "prediction", "y", "solid", "#D55E00"));
      data.push(line("target", "target", "y", "dot", "#56B4E9"));
    }
    const bottom = isPrediction ? 0.28 : 0;
    const top = (part) => bottom + (1 - bottom) * part;
    const layout = {
      height: isPrediction ? 460 : 360, margin: { l: 60, r: 10, t: 10, b: 40 }, bargap: 0, uirevision: "kept",
      legend: { orientation: "h", y: 1.03, yanchor: "bottom" }, font: { size: 12 },
      xaxis: { range: [this.frame - CHART_ROWS, this.frame + CHART_ROWS], anchor: "free", position: 0, tickformat: ",d" },
      yaxis: { domain: [0, 0.24], visible: isPrediction },
      yaxis2: { domain: [bottom, top(0.45)], title: { text: "action" } },
      yaxis3: { domain: [top(0.5), top(0.7)], title: { text: "lives" }, rangemode: "tozero" },
      yaxis4: { domain: [top(0.75), 1], title: { text: "reward" } },
      shapes: [{ type: "line", xref: "x", yref: "paper", x0: this.frame, x1: this.frame, y0: 0, y1: 1,
        line: { dash: "dot", width: 1, color: colour("--faint") } }],
    };
    const figure = applyTheme({ data, layout });
    Plotly.react("around", figure.data, figure.layout, { responsive: true, displaylogo: false });
    if (this.role("rows").closest("details").open) this.fillTable(rows);
  }

  fillTable(rows) {
    const keys = ["global_frame_idx", "reward", "lives", "decided_action_idx", "applied_action_idx"];
    if (rows[0]?.prediction !== undefined) keys.push("prediction", "target");
    const lines = rows.filter((row) => Math.abs(row.global_frame_idx - this.frame) <= 12);
    this.role("rows").replaceChildren(
      ...lines.map((row) => {
        const line = document.createElement("tr");
        line.classList.toggle("current", row.global_frame_idx === this.frame);
        for (const key of keys) {
          const cell = line.insertCell();
          const isAction = key.endsWith("action_idx");
          cell.textContent = isAction ? this.nameAction(row[key]) : row[key];
          cell.classList.toggle("name", isAction);
        }
        return line;
      }),
    );
  }
}

const playerRoot = document.getElementById("player");
if (playerRoot) {
  const player = new Player(playerRoot);
  document.getElementById("around-rows").addEventListener("toggle", () => player.drawChart());
}
