// The table of ops: sorted by a click on a heading, filtered by the search and the legend, linked to
// the chart by the index of the op.
const order = (value) => (value === "Infinity" ? Infinity : value === null || value === undefined ? -1 : value);
const COLUMNS = [
  { title: "op", key: (o) => o.name, cell: (o) => h("bdi", {}, o.name), css: "name" },
  { title: "kind", key: (o) => o.kind, cell: (o) => o.kind },
  { title: "count", key: (o) => o.count, cell: (o) => String(o.count), css: "n" },
  { title: "FLOP", key: (o) => o.flops, cell: (o) => known(o, si(o.flops, "")), css: "n" },
  { title: "byte", key: (o) => o.traffic_bytes, cell: (o) => known(o, si(o.traffic_bytes, "")), css: "n" },
  { title: "FLOP/byte", key: (o) => order(o.arithmetic_intensity), cell: (o) => known(o, number(o.arithmetic_intensity)), css: "n" },
  { title: "bound", key: boundOf, cell: (o) => h("span", { class: boundOf(o) }, boundOf(o)) },
  { title: "bound time", key: (o) => order(o.bound_time_s), cell: (o) => known(o, si(o.bound_time_s, "s", 3)), css: "n" },
  { title: "share of time", key: (o) => order(o.time_share), cell: (o) => shareCell(o), css: "n" },
  { title: "shapes", key: (o) => o.shapes, cell: (o) => o.shapes, css: "shapes" },
];
const known = (op, text) => (op.state === "unmodelled" ? "unknown" : text);

let longestShare = 1;
function shareCell(op) {
  const track = h("i", {});
  track.style.width = `${Math.max((op.time_share || 0) / longestShare * 4.3, 0.05)}rem`;
  return h("span", {}, known(op, percent(op.time_share)), h("span", { class: `track ${boundOf(op)}` }, track));
}

class OpTable {
  constructor(host, select) {
    this.host = host;
    this.select_ = select;
    this.sort = { column: 7, down: true };
  }

  show(ops) {
    longestShare = Math.max(...ops.map((o) => o.time_share || 0), 1e-12);
    this.ops = ops;
    this.heads = COLUMNS.map((c, i) => h("th", { class: c.css, scope: "col" },
      h("button", { type: "button", onclick: () => this.sortBy(i) }, c.title)));
    this.rows = ops.map((op, index) => h("tr", { tabindex: "0", "data-index": index },
      ...COLUMNS.map((c) => h("td", { class: c.css, title: c.css === "name" || c.css === "shapes" ? c.key(op) : null }, c.cell(op)))));
    this.text = ops.map((o) => [o.name, o.kind, o.op, o.module, o.shapes, o.source].join("\n").toLowerCase());
    this.body = h("tbody", {});
    this.body.addEventListener("click", (e) => this.pick(e.target));
    this.body.addEventListener("keydown", (e) => this.key(e));
    this.host.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...this.heads)), this.body));
    this.arrange();
  }

  sortBy(column) {
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : Boolean(COLUMNS[column].css === "n") };
    this.arrange();
  }

  arrange() {
    const { column, down } = this.sort, keys = this.ops.map(COLUMNS[column].key), sign = down ? -1 : 1;
    const sorted = this.ops.map((_, i) => i).sort((a, b) => (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : a - b));
    this.heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...sorted.map((i) => this.rows[i]));
  }

  // Shows the rows that pass; returns how many and their share of the time.
  filter(passes) {
    let count = 0, share = 0;
    this.rows.forEach((row, i) => {
      const shown = passes(i);
      row.hidden = !shown;
      if (shown) { count += 1; share += this.ops[i].time_share || 0; }
    });
    return { count, share };
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
    let next = row;
    do next = down ? next.nextElementSibling : next.previousElementSibling; while (next && next.hidden);
    if (next) { next.focus(); this.select_(Number(next.dataset.index)); }
  }

  highlight(index, scroll) {
    this.rows.forEach((row, i) => row.classList.toggle("on", i === index));
    if (!scroll || index === null) return;
    // Scrolls the table alone: the page stays where the reader looks.
    const row = this.rows[index];
    this.host.scrollTop = row.offsetTop - this.host.clientHeight / 2;
  }
}
