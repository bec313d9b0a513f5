// The page: one analysis at a time is shown; state is what is hidden, searched and selected.
const data = readData("analysis");
const analyses = Array.isArray(data) ? data : [data];
const views = readData("views");
const state = { number: 0, hidden: { bound: new Set(), kind: new Set(), module: new Set() }, search: "" };

const chart = new Chart(byId("chart"), { describe: describeOp, select: (i) => select(i, true), open: openAnalysis });
const table = new OpTable(byId("table"), (i) => select(i, false));
byId("search").addEventListener("input", (e) => { state.search = e.target.value.trim().toLowerCase(); applyFilters(); });

function openAnalysis(n) {
  state.number = n;
  for (const set of Object.values(state.hidden)) set.clear();
  const analysis = analyses[n], view = views[n];
  drawHead(analysis, view);
  drawCompare();
  drawCards(view);
  drawLegend(view.chart, analysis);
  const same = views.map((v, i) => ({ point: v.chart.total, label: v.label, number: i }))
    .filter((o) => o.number !== n && analyses[o.number].hardware.id === analysis.hardware.id);
  table.show(analysis.ops);
  chart.show(view, same);
  drawPictures(view.pictures || []);
  drawAdvice(view.advice);
  drawMore(view.more);
  drawNotes(analysis, view);
  drawDevice(analysis);
  drawDefinitions(analysis);
  applyFilters();
}

function select(index, fromChart) {
  chart.select(index);
  table.highlight(index, fromChart);
}

function applyFilters() {
  const points = views[state.number].chart.points, of = new Map(points.map((p) => [p.index, p]));
  const passes = (i) => {
    const p = of.get(i);
    return !state.hidden.bound.has(p.bound) && !state.hidden.kind.has(p.kind) && !state.hidden.module.has(p.module)
      && table.text[i].includes(state.search);
  };
  const shown = analyses[state.number].ops.map((_, i) => passes(i));
  chart.visible = (i) => shown[i];
  if (chart.selected !== null && !shown[chart.selected]) select(null, false);
  chart.restyle();
  const { count, share } = table.filter((i) => shown[i]);
  byId("found").textContent = `${count} of ${shown.length} rows, ${percent(table.measured || analyses[state.number].total.roofline_time_s ? share : null)} of the ${table.measured ? "measured" : "bound"} time`;
}

function drawHead(analysis, view) {
  byId("subtitle").replaceChildren(h("span", { class: `pill ${boundOf(analysis.total)}` }, view.verdict), ` · ${view.label}`);
}

function drawCompare() {
  const host = byId("compare");
  host.hidden = views.length < 2;
  if (views.length < 2) return;
  const row = (v, i) => {
    const t = analyses[i].total;
    return h("tr", { class: i === state.number ? "on" : null },
      h("td", {}, h("button", { type: "button", "aria-pressed": String(i === state.number), onclick: () => openAnalysis(i) }, v.label)),
      h("td", { class: "n" }, si(t.roofline_time_s, "s")), h("td", { class: "n" }, expectedText(t)), h("td", { class: "n" }, v.throughput),
      h("td", { class: "n" }, number(t.arithmetic_intensity)), h("td", { class: boundOf(t) }, boundOf(t)),
      h("td", { class: "n" }, percent(t.compute_utilization)), h("td", { class: "n" }, percent(t.memory_utilization)));
  };
  const heads = ["analysis", "roofline", "expected", "per second", "FLOP/byte", "bound", "compute", "memory"];
  host.replaceChildren(tableOf(heads, views.map(row), [1, 2, 3, 4, 6, 7]));
}

function tableOf(heads, rows, right = []) {
  return h("div", { class: "scroll free" }, h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((t, i) => h("th", { scope: "col", class: right.includes(i) ? "n" : null }, t)))),
    h("tbody", {}, ...rows)));
}

function drawCards(view) {
  byId("cards").replaceChildren(...view.cards.map(([label, big, small]) =>
    h("div", { class: "card" }, h("h3", {}, label), h("b", {}, big), small ? h("small", {}, small) : null)));
}

function drawLegend(description, analysis) {
  const share = { bound: {}, kind: {}, module: {} };
  for (const p of description.points) {
    const part = shareOf(analysis.ops[p.index]) || 0;
    for (const by of ["bound", "kind", "module"]) share[by][p[by]] = (share[by][p[by]] || 0) + part;
  }
  const known = (by, names) => names.filter((n) => n in share[by]);
  const bySize = (by) => Object.keys(share[by]).sort((a, b) => share[by][b] - share[by][a]);
  const blocks = known("module", description.modules);
  const rest = bySize("module").filter((m) => !blocks.includes(m));
  byId("legend").replaceChildren(
    filterGroup("bound", "Bound (colour)", bySize("bound"), share.bound, (n) => icon("circle", n)),
    filterGroup("kind", "Kind (shape)", known("kind", Object.keys(description.kinds)), share.kind, (n) => icon(description.kinds[n])),
    filterGroup("module", "Module", [...blocks, ...rest], share.module, () => null));
}

function icon(shape, bound) {
  return s("svg", { width: 14, height: 14, viewBox: "-1.4 -1.4 2.8 2.8", "aria-hidden": "true", class: bound || null }, s("path", { d: PATHS[shape] }));
}

function filterGroup(by, title, names, share, mark) {
  const hidden = state.hidden[by];
  const buttons = names.map((name) => h("button", { type: "button", class: "toggle", "aria-pressed": "true", title: name,
    onclick: (e) => { if (!hidden.delete(name)) hidden.add(name); e.currentTarget.setAttribute("aria-pressed", String(!hidden.has(name))); applyFilters(); } },
  mark(name), h("span", {}, name || "(top)"), h("span", { class: "share" }, percent(share[name]))));
  const all = h("button", { type: "button", class: "all", onclick: () => {
    const none = hidden.size === 0;
    hidden.clear();
    if (none) names.forEach((n) => hidden.add(n));
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(!none)));
    applyFilters();
  } }, "all / none");
  return h("div", { class: "group", role: "group", "aria-label": title }, h("h3", {}, title, all), ...buttons);
}

function describeOp(index, point) {
  const whole = index < 0, op = whole ? analyses[state.number].total : analyses[state.number].ops[index];
  const lost = op.state === "unmodelled";
  const rows = whole ? [] : [["kind", `${op.kind} × ${op.count}`], ["framework op", op.op], ["module", op.module],
    ["source", op.source], ["phase", op.phase], ["shapes", op.shapes]];
  if (!lost) {
    if (op.measured) rows.push(["measured", `${si(op.measured.time_s, "s")} (${percent(op.measured.share)}), ${percent(op.measured.utilization)} of the roof`]);
    rows.push(["matrix work", si(op.matrix_flops, "FLOP")], ["vector work", si(op.vector_flops, "FLOP")]);
    if (op.special_ops) rows.push(["special functions", si(op.special_ops, "")]);
    rows.push(["traffic", `${si(op.read_bytes, "B")} read, ${si(op.write_bytes, "B")} written`],
      ["intensity", `${number(op.arithmetic_intensity)} FLOP/byte (ridge ${number(op.ridge_point)})`],
      ["bound", `${boundOf(op)}, ${si(op.roofline_time_s, "s")} (${percent(op.time_share)})`],
      ["expected", expectedText(op)], ["", op.confidence ? `${op.confidence} confidence: ${op.confidence_reason}` : null],
      ["", op.measured && op.measured.reason],
      [op.measured ? "measured rate" : "rate at the roofline", si(point.flop_per_s === null && op.flops === 0 ? 0 : point.flop_per_s, "FLOP/s")],
      ["attainable", si(op.attainable_flop_per_s, "FLOP/s")],
      ["utilization", `compute ${percent(op.compute_utilization)}, memory ${percent(op.memory_utilization)}`]);
    for (const w of op.work) rows.push([`${w.work_class} ${w.dtype}`, w.engine ? `on ${w.engine} ${w.engine_dtype}: ${si(w.time_s, "s")}` : "no known roof"]);
  }
  if (point.note) rows.push(["note", point.note]);
  return h("div", {}, h("strong", {}, point.name), h("dl", {}, ...rows.filter((r) => r[1]).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])));
}

// Drawings come as SVG text in which everything from a model is escaped; the policy above runs none.
function drawPictures(pictures) {
  byId("pictures").hidden = pictures.length === 0;
  byId("drawings").replaceChildren(...pictures.map((p) => {
    const parsed = new DOMParser().parseFromString(p.drawing, "image/svg+xml").documentElement;
    return h("figure", {}, document.importNode(parsed, true), h("figcaption", {}, p.about));
  }));
}

function drawAdvice(advice) {
  byId("advice").hidden = !advice;
  if (advice) byId("advice-body").replaceChildren(...tablesAndTexts(advice, "h3"));
}

function drawMore(more) {
  byId("more").hidden = !more;
  if (more) byId("more").replaceChildren(...tablesAndTexts(more, "h2"));
}

function tablesAndTexts({ tables, texts, about }, heading) {
  const cell = (text, i) => h("td", { class: i > 0 ? "n" : null }, text);
  return [...tables.flatMap((t) => [h(heading, {}, t.heading),
    tableOf(t.header, t.rows.map((row) => h("tr", {}, ...row.map(cell))), t.header.map((_, i) => i).slice(1))]),
  about && texts.length ? h(heading, {}, about) : null,
  h("ul", {}, ...texts.map((text) => h("li", {}, text)))].filter(Boolean);
}

function drawNotes(a, view) {
  const list = (title, items, css) => (items.length ? h("div", { class: css }, h("h2", {}, title), h("ul", {}, ...items.map((t) => h("li", {}, t)))) : null);
  const lost = Object.entries(a.unmodelled).map(([kind, n]) => `no formula for ${kind} (${n} ×): its work and traffic are missing from every sum`);
  const cover = [`${percent(a.total.coverage)} of ops and ${percent(a.total.coverage_traffic)} of the compulsory bytes have a formula; ${a.free_ops} ops are free (views and the like).`];
  byId("notes").replaceChildren(...[list("Warnings", a.warnings, "warning"), list("Coverage", [...cover, ...lost]), list("Assumptions", a.assumptions),
    list("Counting", view.counting)].filter(Boolean));
}

function drawDevice(a) {
  const d = a.hardware;
  const row = (cells) => h("tr", {}, ...cells.map((c, i) => h("td", { class: i === 1 || i === 2 ? "n" : i > 2 ? "wrap" : null }, c)));
  const note = (n) => n || "";
  const rows = [
    ...(d.ceilings || []).map((c) => row([`${c.engine} ${c.dtype}${c.accumulate ? ` (accumulates in ${c.accumulate})` : ""}`, si(c.flop_per_s, "FLOP/s"),
      c.sparse_flop_per_s ? si(c.sparse_flop_per_s, "FLOP/s") : "", sourceOf(c.source), note(c.note)])),
    ...(d.memory || []).map((m) => row([`${m.name} ${m.technology || ""} bandwidth`, si(m.byte_per_s, "B/s"), "", sourceOf(m.bandwidth_source), note(m.note)])),
    ...(d.memory || []).map((m) => row([`${m.name} capacity`, capacity(m.capacity_bytes), "", sourceOf(m.capacity_source), ""])),
    ...(d.links || []).map((l) => row([`${l.name} (${l.direction})`, si(l.byte_per_s, "B/s"), "", sourceOf(l.source), note(l.note)])),
    row(["thermal design power", si(d.tdp_w, "W"), "", sourceOf(d.tdp_source), ""]),
  ];
  const about = [d.vendor, d.architecture, d.category, d.year].filter(Boolean).join(" · ");
  byId("device").replaceChildren(h("h2", {}, `Device: ${d.name}`), h("p", {}, about),
    tableOf(["ceiling", "dense", "with structured sparsity", "source", "note"], rows, [1, 2]),
    ...(d.notes || []).map((t) => h("p", {}, t)));
}

function drawDefinitions(a) {
  byId("definitions").replaceChildren(h("details", {}, h("summary", {}, "Definitions"),
    h("dl", { class: "words" }, ...Object.entries(a.definitions).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]))));
}

openAnalysis(0);
