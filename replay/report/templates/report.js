// The tables of the report (sort, filter, page, details), the theme and the copy buttons.
// Everything that comes from a log goes into the page as text, never as markup.
"use strict";

const PAGE = 12;
const POINTS = ["p50", "p95", "p99", "max"];
const NOTHING = "–";
const EARLIEST_MS = -62135596800000, LATEST_MS = 253402300799999;
const SVG = document.querySelector("svg").namespaceURI;

// ---- elements

function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== null && value !== false) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// ---- texts, as replay/report/text.py makes them

function moment(ms) {
  return ms < EARLIEST_MS || ms > LATEST_MS ? `${ms} ms` : new Date(ms).toISOString();
}

function short(value) {
  return String(Number(value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)));
}

function long(total) {
  const seconds = total % 60, minutes = Math.floor(total / 60) % 60;
  const hours = Math.floor(total / 3600), days = Math.floor(hours / 24);
  const two = (value) => String(value).padStart(2, "0");
  if (days >= 2) return `${days} d ${hours % 24} h`;
  return hours >= 2 ? `${hours} h ${two(minutes)} min` : `${Math.floor(total / 60)} min ${two(seconds)} s`;
}

function duration(us) {
  if (us < 0) return `-${duration(-us)}`;
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${short(us / 1e3)} ms`;
  return us < 120e6 ? `${short(us / 1e6)} s` : long(Math.round(us / 1e6));
}

const number = (value) => value.toLocaleString("en-US");
const quoted = (text) => (/^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

// ---- data

class Rows {
  constructor(payload) {
    Object.assign(this, payload);
    this.texts = null;
    this.scales = {};
  }

  at(key, row) {
    const column = this.values[key];
    if (Array.isArray(column)) return column[row];
    return column.at[row] < 0 ? null : column.of[column.at[row]];
  }

  // What the filter looks at: every text of a row, and its partition as people write it.
  text(row) {
    this.texts ??= Array.from({ length: this.length }, (_, each) => this.textOf(each));
    return this.texts[row];
  }

  textOf(row) {
    const parts = [];
    for (const [key, column] of Object.entries(this.values)) {
      if (!Array.isArray(column)) parts.push(this.at(key, row) ?? "");
    }
    if (this.values.partition) parts.push(`${this.at("topic", row)}-${this.at("partition", row)}`);
    for (const key of ["broker", "node", "epoch"]) {
      if (this.values[key]) parts.push(`${key} ${this.at(key, row)}`);
    }
    return parts.join("\n").toLowerCase();
  }

  largest(key) {
    this.scales[key] ??= this.values[key].reduce((most, value) => Math.max(most, value ?? 0), 1);
    return this.scales[key];
  }

  command(row) {
    const ms = this.verb ? this.at(this.when, row) : null;
    if (ms === null) return "";
    const words = ["controllerctl", "replay", "at", "--time", moment(ms), ...this.logs];
    const partition = () => `${this.at("topic", row)}-${this.at("partition", row)}`;
    if (this.verb === "why") words.splice(2, 2, "why", partition(), "--at");
    return words.map(quoted).join(" ");
  }
}

// ---- cells: what is shown, and what a column is sorted by

const KINDS = {
  text: { show: (rows, key, row) => rows.at(key, row) || NOTHING, by: plain },
  name: { show: (rows, key, row) => element("bdi", { class: "name" }, rows.at(key, row) ?? NOTHING), by: plain },
  int: { show: (rows, key, row) => shownNumber(rows.at(key, row)), by: plain },
  id: { show: (rows, key, row) => String(rows.at(key, row) ?? NOTHING), by: plain },
  bar: { show: bar, by: plain },
  flag: { show: (rows, key, row) => (rows.at(key, row) ? element("span", { class: "yes" }, "▲ yes") : "no"), by: plain },
  ids: { show: (rows, key, row) => (rows.at(key, row) ?? []).join(", ") || NOTHING, by: (rows, key, row) => (rows.at(key, row) ?? []).join(",") },
  moment: { show: (rows, key, row) => shownMoment(rows.at(key, row)), by: plain },
  end: { show: (rows, key, row) => (rows.at(key, row) === null ? "still lasts" : shownMoment(rows.at(key, row))), by: lasting },
  span: { show: (rows, key, row) => (rows.at(key, row) === null ? NOTHING : duration(rows.at(key, row))), by: plain },
  lasting: { show: shownLasting, by: lasting },
  tp: { show: partition, by: (rows, key, row) => [rows.at("topic", row), rows.at("partition", row)] },
  leader: { show: leader, by: (rows, key, row) => rows.at("leader_before", row) },
  range: { show: range, by: (rows, key, row) => rows.at(`${key}_p99_us`, row) },
};
// The class of a column's cells; the others have none.
const CLASS = { int: "n", id: "n", span: "n", lasting: "n", text: "t", range: "range", tp: "w", name: "w" };

function plain(rows, key, row) {
  return rows.at(key, row);
}

function lasting(rows, key, row) {
  return rows.at(key, row) ?? Infinity;
}

function shownNumber(value) {
  return value === null ? NOTHING : number(value);
}

function shownMoment(ms) {
  if (ms === null) return NOTHING;
  const text = moment(ms);
  if (!text.includes("T")) return text;
  return element("time", {}, element("span", { class: "date" }, text.slice(0, 11)), text.slice(11));
}

function shownLasting(rows, key, row) {
  const value = rows.at(key, row);
  if (value === null) return "still lasts";
  const sign = rows.values.sign ? rows.at("sign", row) : "";
  return sign ? `${sign} ${duration(value)}` : duration(value);
}

function partition(rows, key, row) {
  return element("bdi", { class: "name" }, `${rows.at("topic", row)}-${rows.at("partition", row)}`);
}

function leader(rows, key, row) {
  const [before, after] = ["leader_before", "leader_after"].map((each) => rows.at(each, row));
  return `${before === null || before < 0 ? "none" : before} → ${after === null || after < 0 ? "none" : after}`;
}

function bar(rows, key, row) {
  const value = rows.at(key, row), width = ((value ?? 0) * 72) / rows.largest(key);
  const text = value === null ? NOTHING : key.endsWith("_us") ? duration(value) : number(value);
  return element("span", { class: "barcell" }, drawn("svg", { width: 72, height: 10, "aria-hidden": "true" },
    drawn("rect", { class: "track", width: 72, height: 10, rx: 2 }),
    drawn("rect", { width: width.toFixed(1), height: 10, rx: 2 })), text);
}

// Four percentiles on a logarithmic scale from 10 µs to the largest of the column.
function range(rows, key, row) {
  const values = POINTS.map((point) => rows.at(`${key}_${point}_us`, row));
  if (values.includes(null)) return NOTHING;
  const most = Math.log(Math.max(100, rows.largest(`${key}_max_us`)) / 10);
  const x = values.map((value) => `${(2 + (Math.log(Math.max(10, value) / 10) * 96) / most).toFixed(2)}%`);
  const at = (index, name, attributes) => drawn("svg", { x: x[index], y: 8, overflow: "visible" }, drawn(name, attributes));
  const label = POINTS.map((point, index) => `${point} ${duration(values[index])}`);
  return element("div", {}, drawn("svg", { height: 16, role: "img", "aria-label": label.join(", ") },
    drawn("line", { class: "span", x1: "2%", x2: "98%", y1: 8, y2: 8 }),
    drawn("line", { class: "body", x1: x[0], x2: x[2], y1: 8, y2: 8 }),
    at(3, "path", { class: "rmax", d: "M-4-4 4 4M4-4-4 4" }),
    at(2, "path", { class: "r99", d: "M0-5.5 5.5 0 0 5.5-5.5 0z" }),
    at(1, "circle", { class: "r95", r: 4 }),
    at(0, "path", { class: "r50", d: "M-1.5-6h3V6h-3z" })),
  element("small", { "aria-hidden": "true" }, ...POINTS.map((point, index) => element("span", {}, `${point} `, element("b", {}, duration(values[index]))))));
}

// ---- tables

class Table {
  constructor(place) {
    const { command, ...payload } = JSON.parse(document.getElementById(place.dataset.source).textContent);
    this.rows = new Rows({ ...payload, verb: command });
    this.place = place;
    this.title = place.dataset.title;
    this.sortKey = payload.sort.replace("-", "");
    this.down = payload.sort.startsWith("-");
    this.page = 0;
    this.needle = "";
    this.choice = "";
    this.open = new Set();
    this.hasDetails = payload.details.length > 0 || command !== "";
    this.build();
    this.order();
    this.draw();
  }

  build() {
    this.body = element("tbody");
    this.heads = this.rows.columns.map((column) => this.head(column));
    const row = element("tr", {}, ...this.heads);
    if (this.hasDetails) row.append(element("th", { scope: "col" }, element("span", { class: "quiet" }, "Details")));
    const table = element("table", {}, element("caption", { class: "quiet" }, this.title), element("thead", {}, row), this.body);
    this.count = element("span", { class: "shown", role: "status" });
    this.pages = element("div", { class: "pages" });
    const box = element("div", { class: "scroll card", tabindex: 0, role: "region", "aria-label": this.title }, table);
    this.place.append(...this.tools(), box, this.pages);
  }

  head(column) {
    const press = () => this.sort(column.key);
    const button = element("button", { type: "button", click: press, title: column.help || null }, column.label, element("span", { class: "arrow", "aria-hidden": "true" }));
    return element("th", { scope: "col", class: classes(column), "data-key": column.key }, button);
  }

  tools() {
    if (this.rows.length <= 8) return [];
    const input = element("input", { type: "search", placeholder: "Filter, e.g. a topic or a cause", "aria-label": `Filter ${this.title}` });
    input.addEventListener("input", () => this.filter({ needle: input.value }));
    const parts = [input];
    if (this.rows.facet) parts.push(this.choices());
    return [element("div", { class: "tools" }, ...parts, this.count)];
  }

  choices() {
    const key = this.rows.facet, label = this.rows.columns.find((column) => column.key === key)?.label ?? key;
    const found = new Set(Array.from({ length: this.rows.length }, (_, row) => this.rows.at(key, row) ?? ""));
    const options = [...found].sort().map((value) => element("option", { value: `=${value}` }, value || "still lasts"));
    const select = element("select", { "aria-label": `${label} in ${this.title}` }, element("option", { value: "" }, `${label}: all`), ...options);
    select.addEventListener("change", () => this.filter({ choice: select.value }));
    return select;
  }

  filter(change) {
    Object.assign(this, change, { page: 0 });
    this.open.clear();
    this.order();
    this.draw();
  }

  sort(key) {
    const column = this.rows.columns.find((each) => each.key === key);
    this.down = this.sortKey === key ? !this.down : ["int", "bar", "lasting", "span", "range"].includes(column.kind);
    this.sortKey = key;
    this.filter({});
    say(`${this.title}: sorted by ${column.label}, ${this.down ? "largest" : "smallest"} first`);
  }

  // Rows that match, in order; equal ones stay as the tables have them.
  order() {
    const needle = this.needle.trim().toLowerCase(), matching = [];
    for (let row = 0; row < this.rows.length; row++) {
      if (this.choice && `=${this.rows.at(this.rows.facet, row) ?? ""}` !== this.choice) continue;
      if (!needle || this.rows.text(row).includes(needle)) matching.push(row);
    }
    const column = this.rows.columns.find((each) => each.key === this.sortKey);
    const keys = matching.map((row) => KINDS[column.kind].by(this.rows, column.key, row));
    const places = matching.map((_, index) => index), sense = this.down ? -1 : 1;
    places.sort((a, b) => sense * compared(keys[a], keys[b]) || a - b);
    this.matching = places.map((index) => matching[index]);
  }

  draw() {
    const last = Math.max(0, Math.ceil(this.matching.length / PAGE) - 1);
    this.page = Math.min(Math.max(0, this.page), last);
    const start = this.page * PAGE, shown = this.matching.slice(start, start + PAGE);
    this.body.replaceChildren(...shown.flatMap((row) => this.lines(row)));
    if (!shown.length) this.body.append(element("tr", {}, element("td", { colspan: this.width() }, "No row matches the filter.")));
    this.marks();
    const all = this.rows.length, some = this.matching.length;
    this.count.textContent = some === all ? `${number(all)} rows` : `${number(some)} of ${number(all)} rows`;
    this.drawPages(last, start, shown.length);
  }

  drawPages(last, start, shown) {
    const to = (page, label, text) => element("button", { type: "button", "aria-label": `${label} page of ${this.title}`, disabled: page < 0 || page > last || page === this.page ? "" : null, click: () => this.turn(page, label) }, text);
    const where = element("span", {}, `${number(start + 1)} to ${number(start + shown)} of ${number(this.matching.length)}`);
    const buttons = [to(0, "First", "« First"), to(this.page - 1, "Previous", "‹ Previous"), where, to(this.page + 1, "Next", "Next ›"), to(last, "Last", "Last »")];
    this.pages.replaceChildren(...(last ? buttons : []));
  }

  // The pressed button is drawn anew: the focus stays where it was, or near it.
  turn(page, label) {
    this.page = page;
    this.draw();
    const button = this.pages.querySelector(`[aria-label^="${label}"]:not(:disabled)`) ?? this.pages.querySelector("button:not(:disabled)");
    button?.focus();
  }

  marks() {
    for (const head of this.heads) {
      const mine = head.dataset.key === this.sortKey;
      if (mine) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.querySelector(".arrow").textContent = mine ? (this.down ? "▼" : "▲") : "";
    }
  }

  width() {
    return this.heads.length + (this.hasDetails ? 1 : 0);
  }

  lines(row) {
    const cells = this.rows.columns.map((column, index) => {
      const attributes = { class: classes(column), scope: index ? null : "row" };
      return element(index ? "td" : "th", attributes, KINDS[column.kind].show(this.rows, column.key, row));
    });
    if (!this.hasDetails) return [element("tr", {}, ...cells)];
    const open = this.open.has(row);
    const button = element("button", { type: "button", class: "row-button", "aria-expanded": String(open), "data-row": row, click: () => this.toggle(row) }, open ? "Less" : "More");
    const line = element("tr", {}, ...cells, element("td", { class: "n" }, button));
    return open ? [line, this.detail(row)] : [line];
  }

  toggle(row) {
    if (!this.open.delete(row)) this.open.add(row);
    this.draw();
    this.body.querySelector(`[data-row="${row}"]`).focus();
  }

  detail(row) {
    // What a narrow screen leaves out or shortens.
    const short = this.rows.columns.filter((column) => column.minor || column.kind === "moment");
    const parts = [...short, ...this.rows.details].map((column) => {
      const value = column.key.endsWith("_bound") ? this.rows.at(column.key, row) ?? "exact" : KINDS[column.kind].show(this.rows, column.key, row);
      return element("div", {}, element("dt", {}, column.label), element("dd", {}, value));
    });
    const cell = element("td", { colspan: this.width() }, element("dl", {}, ...parts));
    const command = this.rows.command(row);
    if (command) cell.append(element("span", { class: "command" }, element("code", {}, command), element("button", { type: "button", class: "copy" }, "Copy")));
    return element("tr", { class: "detail" }, cell);
  }
}

function classes(column) {
  return [CLASS[column.kind], column.minor ? "minor" : ""].filter(Boolean).join(" ") || null;
}

function compared(a, b) {
  if (Array.isArray(a)) return compared(a[0], b[0]) || compared(a[1], b[1]);
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  return a < b ? -1 : 1;
}

// ---- the page

function say(text) {
  document.getElementById("said").textContent = text;
}

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  getSelection().selectAllChildren(code);
  const done = await navigator.clipboard?.writeText(code.textContent).then(() => true, () => false);
  button.textContent = done ? "Copied" : "Selected: press Ctrl-C";
  say(done ? "Command copied" : "Command selected");
}

const theme = document.getElementById("theme");
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function showTheme() {
  theme.textContent = dark() ? "☀ Light" : "☾ Dark";
  theme.setAttribute("aria-pressed", String(dark()));
  theme.setAttribute("aria-label", "Dark colours");
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".copy");
  if (button) copy(button);
});
showTheme();

// A table is built when it comes near: a page with many rows opens at once.
const nearby = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      nearby.unobserve(entry.target);
      new Table(entry.target);
    }
  }
}, { rootMargin: "1200px" });
for (const place of document.querySelectorAll(".data-table")) nearby.observe(place);
