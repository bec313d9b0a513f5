"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const COLORS = {compute: "#d55e00", memory: "#0072b2", network: "#b0508e",
    overhead: "#9a7500", unknown: "#777777"};
  const W = 1000, H = 560, LEFT = 70, RIGHT = 20, TOP = 16, BOTTOM = 46;
  const chart = document.getElementById("chart"), tip = document.getElementById("tip");
  const hidden = new Set();
  let view = "flops", chosen = -1, filter = "";

  const make = (name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const si = (value, unit) => {
    if (value === null || value === undefined) return "unknown";
    if (value === 0) return `0 ${unit}`;
    const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""],
      [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
    const [size, prefix] = steps.find(([s]) => Math.abs(value) >= s) || [1e-9, "n"];
    return `${Number((value / size).toPrecision(4))} ${prefix}${unit}`;
  };
  const percent = (value) => value === null || value === undefined ? "unknown"
    : `${Number((100 * value).toPrecision(3))} %`;
  const shown = () => data.kernels.map((k, i) => [k, i])
    .filter(([k]) => k.name.toLowerCase().includes(filter));

  function dots() {
    const found = [];
    for (const [k, i] of shown()) {
      for (const level of k.levels) {
        const [x, y] = view === "flops" ? [level.intensity, k.rate]
          : [level.per_transaction, k.instructions];
        const before = view === "flops" ? level.before : null;
        if (x > 0 && y > 0 && isFinite(x)) found.push({k, i, level: level.name, x, y, before});
      }
    }
    return found;
  }

  function scale(values, low, high) {
    let a = Math.log10(Math.min(...values)) - 0.3, b = Math.log10(Math.max(...values)) + 0.3;
    if (b - a < 2) { const middle = (a + b) / 2; a = middle - 1; b = middle + 1; }
    const to = (v) => low + (Math.log10(v) - a) / (b - a) * (high - low);
    return {to, from: 10 ** a, upto: 10 ** b};
  }

  function axes(x, y, labels) {
    for (let e = Math.ceil(Math.log10(x.from)); e <= Math.log10(x.upto); e++) {
      const at = x.to(10 ** e);
      chart.append(make("line", {x1: at, x2: at, y1: TOP, y2: H - BOTTOM, class: "grid"}));
      chart.append(make("text", {x: at, y: H - BOTTOM + 16, "text-anchor": "middle"},
        si(10 ** e, "").trim()));
    }
    for (let e = Math.ceil(Math.log10(y.from)); e <= Math.log10(y.upto); e++) {
      const at = y.to(10 ** e);
      chart.append(make("line", {x1: LEFT, x2: W - RIGHT, y1: at, y2: at, class: "grid"}));
      chart.append(make("text", {x: LEFT - 6, y: at + 4, "text-anchor": "end"},
        si(10 ** e, "").trim()));
    }
    chart.append(make("text", {x: (LEFT + W) / 2, y: H - 8, "text-anchor": "middle"}, labels[0]));
    chart.append(make("text", {x: LEFT, y: 11}, labels[1]));
  }

  function roofs(x, y, peaks, slopes) {
    const top = Math.max(...peaks.filter((p) => p.used).map((p) => p.value), 0)
      || Math.max(...peaks.map((p) => p.value), 0) || y.upto;
    const steep = slopes.filter((s) => s.used).map((s) => s.value);
    for (const p of peaks) {
      if (p.value < y.from || p.value > y.upto) continue;
      const start = steep.length ? Math.max(x.from, p.value / Math.max(...steep)) : x.from;
      chart.append(make("line", {x1: x.to(start), x2: W - RIGHT, y1: y.to(p.value),
        y2: y.to(p.value), class: p.used ? "roof" : "roof faint"}));
      chart.append(make("text", {x: W - RIGHT - 4, y: y.to(p.value) - 4, "text-anchor": "end",
        class: p.used ? "" : "faint"}, p.label));
    }
    for (const s of slopes) {
      const from = Math.max(x.from, y.from / s.value), upto = Math.min(x.upto, top / s.value);
      if (from >= upto) continue;
      chart.append(make("line", {x1: x.to(from), y1: y.to(from * s.value), x2: x.to(upto),
        y2: y.to(upto * s.value), class: s.used ? "roof" : "roof faint"}));
      chart.append(make("text", {x: x.to(from) + 12, y: y.to(from * s.value) + 10,
        class: s.used ? "" : "faint"}, s.label));
    }
  }

  function mark(d, x, y) {
    const r = 3 + 15 * Math.sqrt(d.k.share || 0), cx = x.to(d.x), cy = y.to(d.y);
    const look = {fill: COLORS[d.k.bound] || COLORS.unknown, class: "dot",
      opacity: chosen < 0 || chosen === d.i ? 0.8 : 0.15};
    const node = {
      L2: () => make("rect", {x: cx - r, y: cy - r, width: 2 * r, height: 2 * r, ...look}),
      L1: () => make("rect", {x: cx - r, y: cy - r, width: 2 * r, height: 2 * r,
        transform: `rotate(45 ${cx} ${cy})`, ...look}),
      shared: () => make("path", {d: `M${cx} ${cy - r}l${r} ${2 * r}h${-2 * r}z`, ...look}),
    }[d.level] || (() => make("circle", {cx, cy, r, ...look}));
    const drawn = node();
    drawn.addEventListener("mousemove", (event) => hover(event, d.k, d.level));
    drawn.addEventListener("mouseleave", () => { tip.hidden = true; });
    drawn.addEventListener("click", () => choose(d.i));
    return drawn;
  }

  function scatter() {
    const flops = view === "flops";
    const peaks = flops ? data.roofs : data.instruction_roofs;
    const slopes = flops ? data.memory : data.transaction_roofs;
    const found = dots().filter((d) => !hidden.has(d.level));
    if (!found.length) { message(flops ? "No kernel has work, bytes and a time that are known."
      : "The files hold no instructions (sm__inst_executed)."); return; }
    const used = peaks.filter((p) => p.used).map((p) => p.value);
    const ridge = used.length ? slopes.filter((s) => s.used).map((s) => used[0] / s.value) : [];
    const earlier = found.map((d) => d.before).filter((b) => b && b[0] > 0 && b[1] > 0);
    const x = scale([...found.map((d) => d.x), ...earlier.map((b) => b[0]), ...ridge],
      LEFT, W - RIGHT);
    const y = scale([...found.map((d) => d.y), ...earlier.map((b) => b[1]),
      ...peaks.map((p) => p.value)], H - BOTTOM, TOP);
    axes(x, y, flops ? ["arithmetic intensity at the level (FLOP/byte)", "FLOP/s"]
      : ["warp instructions a transaction of 32 bytes", "warp instructions/s"]);
    roofs(x, y, peaks, slopes);
    const rows = new Map();
    for (const d of found) rows.set(d.i, [...(rows.get(d.i) || []), d]);
    for (const row of rows.values()) {
      const places = row.map((d) => `${x.to(d.x)},${y.to(d.y)}`).join(" ");
      chart.append(make("polyline", {points: places, class: "link"}));
    }
    for (const d of found) {
      if (d.before && d.before[0] > 0 && d.before[1] > 0) {
        chart.append(make("line", {x1: x.to(d.before[0]), y1: y.to(d.before[1]), x2: x.to(d.x),
          y2: y.to(d.y), class: "move"}));
        chart.append(make("circle", {cx: x.to(d.before[0]), cy: y.to(d.before[1]), r: 3,
          class: "before"}));
      }
    }
    for (const d of found) chart.append(mark(d, x, y));
  }

  function bars() {
    const rows = shown().filter(([k]) => k.time).slice(0, 24);
    if (!rows.length) { message("The files hold no times."); return; }
    const longest = Math.max(...rows.map(([k]) => k.time)), height = (H - 30) / rows.length;
    rows.forEach(([k, i], n) => {
      const y = 10 + n * height, width = (W - 420) * k.time / longest;
      const bar = make("rect", {x: 300, y, width, height: Math.min(height * 0.8, 22),
        fill: COLORS[k.bound] || COLORS.unknown, class: "dot",
        opacity: chosen < 0 || chosen === i ? 0.55 : 0.15});
      bar.addEventListener("mousemove", (event) => hover(event, k));
      bar.addEventListener("mouseleave", () => { tip.hidden = true; });
      bar.addEventListener("click", () => choose(i));
      chart.append(bar);
      if (k.bound_time) chart.append(make("line", {x1: 300 + (W - 420) * k.bound_time / longest,
        x2: 300 + (W - 420) * k.bound_time / longest, y1: y, y2: y + height * 0.8,
        class: "roof"}));
      chart.append(make("text", {x: 292, y: y + 14, "text-anchor": "end"}, k.short.slice(0, 42)));
      chart.append(make("text", {x: 306 + width, y: y + 14},
        `${si(k.time, "s")}, ${percent(k.share)}`));
    });
    chart.append(make("text", {x: 300, y: H - 6}, "time; the mark is the time at the roof"));
  }

  function message(text) {
    chart.append(make("text", {x: W / 2, y: H / 2, "text-anchor": "middle"}, text));
  }

  function hover(event, k, at) {
    const lines = [k.name, `${k.count} launches, ${si(k.time, "s")} (${percent(k.share)})`,
      `work: ${k.flops === null ? k.state : si(k.flops, "FLOP")}, ${si(k.rate, "FLOP/s")}`];
    for (const l of k.levels) {
      const value = l.intensity === null ? "unknown" : Number(l.intensity.toPrecision(4));
      lines.push(`${l.name === at ? "▸ " : ""}${l.name}: ${si(l.bytes, "B")}, ${value} FLOP/byte, `
        + `${percent(l.used)} of its roof; ${l.how}`);
    }
    lines.push(`bound: ${k.bound}${k.binding ? ` (${k.binding})` : ""}, `
      + `${percent(k.efficiency)} of the roof, headroom ${si(k.headroom, "s")}`);
    lines.push(...k.remarks.slice(0, 4));
    tip.replaceChildren(...lines.map((text) => {
      const row = document.createElement("div");
      row.textContent = text;
      return row;
    }));
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 380)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  }

  function choose(index) {
    chosen = chosen === index ? -1 : index;
    draw();
    document.querySelectorAll("#kernels tbody tr").forEach((row) => {
      row.classList.toggle("chosen", Number(row.dataset.index) === chosen);
    });
  }

  function draw() {
    chart.replaceChildren();
    if (view === "time") bars(); else scatter();
  }

  function controls() {
    const bar = document.getElementById("controls");
    for (const [name, label] of [["flops", "FLOP roofline"], ["instructions",
      "instruction roofline"], ["time", "time"]]) {
      const button = document.createElement("button");
      button.textContent = label;
      button.addEventListener("click", () => { view = name; draw(); });
      bar.append(button);
    }
    for (const name of data.level_names) {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(name); else hidden.add(name);
        draw();
      });
      label.append(box, ` ${name}`);
      bar.append(label);
    }
    const search = document.createElement("input");
    search.type = "search";
    search.placeholder = "filter kernels";
    search.addEventListener("input", () => {
      filter = search.value.toLowerCase();
      document.querySelectorAll("#kernels tbody tr").forEach((row) => {
        row.hidden = !data.kernels[Number(row.dataset.index)].name.toLowerCase().includes(filter);
      });
      draw();
    });
    bar.append(search);
  }

  function sorting() {
    const body = document.querySelector("#kernels tbody");
    document.querySelectorAll("#kernels th").forEach((head, column) => {
      let down = false;
      head.addEventListener("click", () => {
        down = !down;
        const key = (row) => {
          const cell = row.cells[column];
          return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
        };
        const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
        const rows = [...body.rows].sort((a, b) => order(key(a), key(b)) * (down ? -1 : 1));
        body.append(...rows);
      });
    });
    for (const row of body.rows) {
      row.addEventListener("click", () => choose(Number(row.dataset.index)));
    }
  }

  if (!data.kernels.some((k) => k.rate)) view = data.kernels.some((k) => k.instructions)
    ? "instructions" : "time";
  controls();
  sorting();
  draw();
})();
