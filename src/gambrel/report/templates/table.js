// The table of ops: sorted by a click on a heading, filtered by the search and the legend, linked to
// the chart by the index of the op.
const confidenceOf = (op) => op.confidence || "unknown";
const expectedAbout = (op) => (op.confidence ? `${expectedText(op)}: ${op.confidence_reason}` : "no constants serve this device");
const timesRoofline = (op) => (op.expected_time_s && op.roofline_time_s ? op.expected_time_s / op.roofline_time_s : null);
const order = (value) => (value === "Infinity" ? Infinity : value === null || value === undefined ? -1 : value);
const COLUMNS = [
  { title: "op", key: (o) => o.name, cell: (o) => h("bdi", {}, o.name), css: "name" },
  { title: "kind", key: (o) => o.kind, cell: (o) => o.kind },
  { title: "count", key: (o) => o.count, cell: (o) => String(o.count), css: "n" },
  { title: "FLOP", key: (o) => o.flops, cell: (o) => known(o, si(o.flops, "")), css: "n" },
  { title: "byte", key: (o) => o.traffic_bytes, cell: (o) => known(o, si(o.traffic_bytes, "")), css: "n" },
  { title: "FLOP/byte", key: (o) => order(o.arithmetic_intensity), cell: (o) => known(o, number(o.arithmetic_intensity)), css: "n" },
  { title: "bound", key: boundOf, cell: (o) => h("span", { class: boundOf(o) }, boundOf(o)) },
  { title: "measured", key: (o) => order(o.measured.time_s), cell: (o) => si(o.measured.time_s, "s", 3), css: "n", measured: true },
  { title: "spread", key: (o) => order(o.measured.spread), cell: (o) => percent(o.measured.spread), css: "n", measured: true },
  { title: "of roof", key: (o) => order(o.measured.utilization), cell: (o) => percent(o.measured.utilization), css: "n", measured: true, about: (o) => o.measured.reason || null },
  { title: "roofline", key: (o) => order(o.roofline_time_s), cell: (o) => known(o, si(o.roofline_time_s, "s", 3)), css: "n" },
  { title: "share of time", key: (o) => order(shareOf(o)), cell: (o) => shareCell(o), css: "n" },
  { title: "expected", key: (o) => order(o.expected_time_s), cell: (o) => known(o, si(o.expected_time_s, "s", 3)), css: "n", about: expectedAbout },
  { title: "of roofline", key: (o) => order(timesRoofline(o)), cell: (o) => known(o, timesRoofline(o) ? `${number(timesRoofline(o), 3)}×` : "unknown"), css: "n" },
  { title: "limited by", key: (o) => o.limited_by || "", cell: (o) => known(o, o.limited_by || "unknown") },
  { title: "confidence", key: (o) => CONFIDENCE.indexOf(confidenceOf(o)), cell: (o) => known(o, confidenceOf(o)), about: expectedAbout },
  { title: "shapes", key: (o) => o.shapes, cell: (o) => o.shapes, css: "shapes" },
];
const CONFIDENCE = ["unknown", "low", "medium", "high"];
const known = (op, text) => (op.state === "unmodelled" ? "unknown" : text);

let longestShare = 1;
function shareCell(op) {
  const track = h("i", {});
  track.style.width = `${Math.max((shareOf(op) || 0) / longestShare * 4.3, 0.05)}rem`;
  return h("span", {}, known(op, percent(shareOf(op))), h("span", { class: `track ${boundOf(op)}` }, track));
}

// Rows that exist at first; more are made when the reader scrolls to the end, so that thousands of
// ops open at once.
const CHUNK = 200;

class OpTable {
  constructor(host, select) {
    this.host = host;
    this.select_ = select;
    host.addEventListener("scroll", () => {
      if (host.scrollTop + host.clientHeight > host.scrollHeight - 400) this.extend(this.made + CHUNK);
    });
    window.addEventListener("beforeprint", () => this.extend(Infinity));
  }

  show(ops) {
    longestShare = Math.max(...ops.map((o) => shareOf(o) || 0), 1e-12);
    this.ops = ops;
    this.measured = ops.some((o) => o.measured);
    const columns = COLUMNS.filter((c) => this.measured || !c.measured);
    // One analysis after another keeps the order that the reader chose.
    if (!this.columns || this.columns.length !== columns.length) {
      this.columns = columns;
      this.sort = { column: columns.findIndex((c) => c.title === (this.measured ? "measured" : "roofline")), down: true };
    }
    this.on = null;
    this.passes = () => true;
    this.rows = new Array(ops.length);
    this.text = ops.map((o) => [o.name, o.kind, o.op, o.module, o.shapes, o.source].join("\n").toLowerCase());
    this.heads = this.columns.map((c, i) => h("th", { class: c.css, scope: "col" },
      h("button", { type: "button", onclick: () => this.sortBy(i) }, c.title)));
    this.body = h("tbody", {});
    this.body.addEventListener("click", (e) => this.pick(e.target));
    this.body.addEventListener("keydown", (e) => this.key(e));
    this.host.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...this.heads)), this.body));
    this.arrange();
  }

  row(index) {
    const op = this.ops[index], full = (c) => (c.about ? c.about(op) : c.css === "name" || c.css === "shapes" ? c.key(op) : null);
    this.rows[index] ||= h("tr", { tabindex: "0", "data-index": index, class: index === this.on ? "on" : null },
      ...this.columns.map((c) => h("td", { class: c.css, title: full(c) }, c.cell(op))));
    return this.rows[index];
  }

  sortBy(column) {
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : this.columns[column].css === "n" };
    this.arrange();
  }

  arrange() {
    const { column, down } = this.sort, keys = this.ops.map(this.columns[column].key), sign = down ? -1 : 1;
    this.order = this.ops.map((_, i) => i).sort((a, b) => (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : a - b));
    this.heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.refresh();
  }

  refresh() {
    this.list = this.order.filter(this.passes);
    this.made = 0;
    this.body.replaceChildren();
    this.host.scrollTop = 0;
    this.extend(CHUNK);
  }

  extend(count) {
    const end = Math.min(count, this.list.length);
    if (end <= this.made) return;
    this.body.append(...this.list.slice(this.made, end).map((i) => this.row(i)));
    this.made = end;
  }

  // Shows the rows that pass; returns how many and their share of the time.
  filter(passes) {
    this.passes = passes;
    this.refresh();
    return { count: this.list.length, share: this.list.reduce((sum, i) => sum + (shareOf(this.ops[i]) || 0), 0) };
  }

  pick(target) {
    const row = target.closest("tr");
    if (row) this.select_(row.classList.contains("on") ? null : Number(row.dataset.index));
  }

  key(e) {
    if (e.key === "Enter" || e.key === " ") this.pick(e.target);
    else if (e.key === "ArrowDown" || e.key === "ArrowUp") this.step(e.target.closest("tr"), e.key === "ArrowDown");
    else if (e.key === "Escape") this.select_(null);
    else return;
    e.preventDefault();
  }

  step(row, down) {
    if (down && !row.nextElementSibling) this.extend(this.made + CHUNK);
    const next = down ? row.nextElementSibling : row.previousElementSibling;
    if (next) { next.focus(); this.select_(Number(next.dataset.index)); }
  }

  highlight(index, scroll) {
    if (this.on !== null && this.rows[this.on]) this.rows[this.on].classList.remove("on");
    this.on = index;
    if (index === null) return;
    this.extend(this.list.indexOf(index) + 1);
    const row = this.row(index);
    row.classList.add("on");
    // Scrolls the table alone: the page stays where the reader looks.
    if (scroll) this.host.scrollTop = row.offsetTop - this.host.clientHeight / 2;
  }
}
