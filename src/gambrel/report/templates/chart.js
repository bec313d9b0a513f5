// The roofline on two logarithmic axes, drawn from the chart description. All coordinates inside are
// decimal logarithms.
const PATHS = {
  "circle": "M0-1A1 1 0 1 1 0 1A1 1 0 1 1 0-1Z",
  "square": "M-.89-.89H.89V.89H-.89Z",
  "diamond": "M0-1.25L1.05 0L0 1.25L-1.05 0Z",
  "triangle-up": "M0-1.2L1.1.8H-1.1Z",
  "triangle-down": "M0 1.2L1.1-.8H-1.1Z",
  "cross": "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
  "x": "M-1-.55L-.55-1L0-.45L.55-1L1-.55L.45 0L1 .55L.55 1L0 .45L-.55 1L-1 .55L-.45 0Z",
  "pentagon": "M0-1.1L1.05-.34L.65.89H-.65L-1.05-.34Z",
  "hexagon": "M-1.1 0L-.55-.95H.55L1.1 0L.55.95H-.55Z",
  "star": "M0-1.3L.31-.42L1.24-.4L.5.16L.76 1.05L0 .52L-.76 1.05L-.5.16L-1.24-.4L-.31-.42Z",
};
const STRIP = 26;
const log = Math.log10;

class Chart {
  // callbacks: describe(index) -> element for the tooltip, select(index), open(number of analysis)
  constructor(host, callbacks) {
    this.host = host;
    this.callbacks = callbacks;
    this.visible = () => true;
    this.selected = null;
    this.svg = s("svg", { tabindex: "0", role: "application", "aria-label":
      "Roofline chart. Arrow keys go from op to op, plus and minus zoom, 0 resets." });
    this.tip = h("div", { id: "tip", role: "status", hidden: true });
    const button = (text, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, text);
    host.replaceChildren(this.svg, this.tip, h("div", { class: "zoom" },
      this.toggle = h("button", { type: "button", class: "levels", "aria-pressed": "false",
        title: "Show every op at each memory level", onclick: () => this.showLevels(!this.byLevel) }, "levels"),
      button("+", "Zoom in", () => this.zoom(0.6)), button("−", "Zoom out", () => this.zoom(1 / 0.6)),
      button("⟲", "Reset the view", () => this.reset())),
    h("p", { class: "hint" }, "Drag to move, Ctrl + wheel to zoom, arrow keys go from op to op. ",
      this.area = h("span", {})));
    this.listen();
    // Only the width counts: the height follows from it, and would call this again.
    new ResizeObserver(() => { if (this.host.clientWidth !== this.width) this.layout(); }).observe(host);
  }

  show(view, others) {
    this.data = view.chart;
    this.others = others;
    this.levels = view.levels;
    this.area.textContent = `Area of a dot: its ${view.measured ? "measured time" : "time at the roofline"}.`;
    this.toggle.hidden = !this.levels;
    this.selected = null;
    this.strips = {};
    for (const p of this.data.points) if (p.margin) this.strips[p.margin] = true;
    if (this.data.total.margin) this.strips[this.data.total.margin] = true;
    this.reset();
    this.layout();
  }

  reset() {
    this.view = { x: this.data.x_range.map(log), y: this.data.y_range.map(log) };
    if (this.byLevel && this.levels) {
      let [low, high] = this.view.x;
      for (const p of this.levels.points) for (const x of p.intensities) {
        if (x > 0) { low = Math.min(low, log(x) - 0.2); high = Math.max(high, log(x) + 0.2); }
      }
      this.view.x = [low, high];
    }
    this.draw();
  }

  layout() {
    if (!this.data) return;
    this.width = Math.max(this.host.clientWidth, 280);
    this.height = Math.min(Math.max(this.width * 0.58, 340), 600);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.style.height = `${this.height}px`;
    const left = 58 + (this.strips.left ? STRIP : 0);
    const bottom = 46 + (this.strips.bottom ? STRIP : 0);
    this.box = { left, top: 14, right: this.width - 14 - (this.strips.right ? STRIP : 0), bottom: this.height - bottom };
    this.make();
    this.draw();
  }

  showLevels(on) {
    this.byLevel = on;
    this.toggle.setAttribute("aria-pressed", String(on));
    this.reset();
  }

  px(x) { const { left, right } = this.box; const [a, b] = this.view.x; return left + (x - a) / (b - a) * (right - left); }
  py(y) { const { top, bottom } = this.box; const [a, b] = this.view.y; return bottom - (y - a) / (b - a) * (bottom - top); }

  // Elements that live as long as the layout; draw() only moves them.
  make() {
    const { left, top, right, bottom } = this.box;
    const clip = (id, x, y, w, hgt) => s("clipPath", { id }, s("rect", { x, y, width: w, height: hgt }));
    this.back = s("g", {});
    this.lines = s("g", { "clip-path": "url(#in-box)" });
    this.labels = s("g", { "clip-path": "url(#in-box)" });
    this.dots = this.data.points.map((p) => s("path", { d: PATHS[p.shape], class: `dot ${p.bound}${p.margin ? " margin" : ""}` }));
    this.stars = this.others.map((o) => s("path", { d: PATHS.star, class: "star other" }, s("title", {}, o.label)));
    this.total = s("path", { d: PATHS.star, class: "star" });
    this.levelMarks = s("g", { "clip-path": "url(#in-box)" });
    const outer = s("g", { "clip-path": "url(#in-all)" }, ...[...this.dots].reverse(), ...this.stars, this.total);
    this.svg.replaceChildren(
      s("defs", {}, clip("in-box", left, top, right - left, bottom - top), clip("in-all", 0, 0, this.width, this.height)),
      this.back, this.lines, this.labels, outer, this.levelMarks);
  }

  draw() {
    if (!this.box || !this.dots) return;
    this.drawBack();
    this.drawRoofs();
    this.data.points.forEach((p, i) => this.move(this.dots[i], p, 4 + 11 * p.size));
    this.others.forEach((o, i) => this.move(this.stars[i], o.point, 9));
    this.move(this.total, this.data.total, 11);
    this.restyle();
    if (this.selected !== null) this.openTip(this.selected);
  }

  move(path, point, radius) {
    const [x, y] = this.place(point);
    const { left, top, right, bottom } = this.box;
    const outside = (point.arithmetic_intensity !== null && (x < left - 1 || x > right + 1))
      || (point.flop_per_s !== null && (y < top - 1 || y > bottom + 1));
    path.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${radius.toFixed(2)})`);
    path.style.display = outside ? "none" : "";
  }

  place(point) {
    const { left, top, right, bottom } = this.box;
    const x = point.arithmetic_intensity !== null ? this.px(log(point.arithmetic_intensity))
      : point.margin === "right" ? right + STRIP / 2 : left - STRIP / 2;
    const y = point.flop_per_s !== null ? this.py(log(point.flop_per_s))
      : point.margin === "bottom" ? bottom + STRIP / 2 : top + point.along * (bottom - top);
    return [x, y];
  }

  drawBack() {
    const { left, top, right, bottom } = this.box;
    const parts = [s("rect", { class: "frame", x: left, y: top, width: right - left, height: bottom - top })];
    const strip = (x, y, w, hgt, tx, ty, text) => parts.push(
      s("rect", { class: "strip", x, y, width: w, height: hgt }), s("text", { x: tx, y: ty, "text-anchor": "middle" }, text));
    const axis = this.height - 28;
    if (this.strips.left) strip(left - STRIP, top, STRIP, bottom - top, left - STRIP / 2, axis, "0");
    if (this.strips.right) strip(right, top, STRIP, bottom - top, right + STRIP / 2, axis, "∞");
    if (this.strips.bottom) strip(left, bottom, right - left, STRIP, left + 44, bottom + 17, "time unknown");
    const edge = left - (this.strips.left ? STRIP : 0);
    for (const d of ticks(this.view.x, 9)) {
      const x = this.px(d);
      parts.push(s("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }));
      parts.push(s("text", { x, y: axis, "text-anchor": "middle" }, number(10 ** d, 2)));
    }
    for (const d of ticks(this.view.y, 10)) {
      const y = this.py(d);
      parts.push(s("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }));
      parts.push(s("text", { x: edge - 6, y: y + 4, "text-anchor": "end" }, si(10 ** d, "", 2)));
    }
    parts.push(s("text", { x: (left + right) / 2, y: this.height - 9, "text-anchor": "middle" }, this.data.x_label));
    parts.push(s("text", { transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.data.y_label));
    this.back.replaceChildren(...parts);
  }

  drawRoofs() {
    const lines = [], labels = [];
    const main = this.data.memory_roofs.find((m) => m.used);
    const used = this.data.roofs.filter((r) => r.used).map((r) => r.peak_flop_per_s);
    const ceiling = used.length ? log(Math.max(...used)) : Infinity;
    const [xa, xb] = this.view.x;
    const line = (x1, y1, x2, y2, roof) => lines.push(s("line", {
      class: roof.used ? "roof" : "roof faint", x1: this.px(x1), y1: this.py(y1), x2: this.px(x2), y2: this.py(y2),
    }, s("title", {}, `${roof.label} — ${roof.source}`)));
    const label = (x, y, text, roof, extra) => labels.push(s("text", { class: roof.used ? "label used" : "label", x, y, ...extra }, text));
    const taken = [];
    for (const roof of this.data.roofs) {
      const y = log(roof.peak_flop_per_s), start = main ? Math.max(xa, y - log(main.byte_per_s)) : xa;
      if (start < xb) line(start, y, xb, y, roof);
      const at = this.py(y) - 9;
      if (start < xb && taken.every((t) => Math.abs(t - at) > 12)) {
        taken.push(at);
        label(this.box.right - 8, at, roof.label, roof, { "text-anchor": "end" });
      }
    }
    for (const memory of this.data.memory_roofs) {
      const slope = log(memory.byte_per_s), end = Math.min(xb, ceiling - slope);
      if (end <= xa) continue;
      line(xa, xa + slope, end, end + slope, memory);
      const rise = this.view.y[0] + 0.2 * (this.view.y[1] - this.view.y[0]);
      const x = Math.max(rise - slope, xa + 0.03 * (xb - xa));
      if (x < end) labels.push(this.alongLine(x, x + slope, memory));
    }
    for (const ridge of this.data.ridges) {
      if (!ridge.main) continue;
      const x = this.px(log(ridge.arithmetic_intensity));
      lines.push(s("line", { class: "ridge", x1: x, x2: x, y1: this.py(log(ridge.flop_per_s)), y2: this.box.bottom }));
      const late = x > this.box.left + 0.65 * (this.box.right - this.box.left);
      label(late ? x - 6 : x + 6, this.box.bottom - 8, ridge.label, { used: true }, { "text-anchor": late ? "end" : "start" });
    }
    this.lines.replaceChildren(...lines);
    this.labels.replaceChildren(...labels);
  }

  alongLine(x, y, memory) {
    const angle = Math.atan2(this.py(y + 1) - this.py(y), this.px(x + 1) - this.px(x)) * 180 / Math.PI;
    const at = `translate(${this.px(x)} ${this.py(y)}) rotate(${angle}) translate(0 -7)`;
    return s("text", { class: memory.used ? "label used" : "label", transform: at }, memory.label);
  }

  // Every op at its intensity at each level, linked; where levels coincide the inner dot is smaller.
  drawLevels() {
    const on = Boolean(this.byLevel && this.levels), marks = [];
    this.svg.classList.toggle("by-level", on);
    if (on) {
      const { names, points, total } = this.levels;
      const mark = (p, place) => {
        const y = this.py(log(p.flop_per_s)), known = p.intensities.filter((x) => x > 0).map((x) => this.px(log(x)));
        if (!known.length) return;
        marks.push(s("line", { class: "link", x1: Math.min(...known), x2: Math.max(...known), y1: y, y2: y }));
        p.intensities.forEach((x, i) => { if (x > 0) marks.push(place(this.px(log(x)), y, i, x)); });
      };
      for (const p of points) {
        if (!this.visible(p.index)) continue;
        mark(p, (x, y, i, ai) => s("circle", { class: `level ${names[i]}`, cx: x, cy: y, r: (5 * 0.8 ** i).toFixed(1) },
          s("title", {}, `${names[i]}: ${number(ai, 4)} FLOP/byte`)));
      }
      if (total) mark(total, (x, y, i) => s("path", { class: `level whole ${names[i]}`, d: PATHS.star, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(9)` }));
      names.forEach((name, i) => marks.push(
        s("circle", { class: `level ${name}`, cx: this.box.left + 14, cy: this.box.top + 16 + 16 * i, r: 5 }),
        s("text", { x: this.box.left + 24, y: this.box.top + 20 + 16 * i }, `at ${name}`)));
    }
    this.levelMarks.replaceChildren(...marks);
  }

  // Which dots are filtered out or selected.
  restyle() {
    this.drawLevels();
    this.data.points.forEach((p, i) => {
      this.dots[i].style.visibility = this.visible(p.index) ? "" : "hidden";
      this.dots[i].classList.toggle("on", p.index === this.selected);
    });
    const on = this.data.points.findIndex((p) => p.index === this.selected);
    if (on >= 0) this.dots[on].parentNode.insertBefore(this.dots[on], this.stars[0] || this.total);
  }

  select(index) {
    this.selected = index;
    this.restyle();
    if (index === null) this.tip.hidden = true;
    else this.openTip(index);
  }

  openTip(index) {
    const point = index === -1 ? this.data.total : this.data.points.find((p) => p.index === index);
    if (!point) return;
    if (this.tipIndex !== index || this.tipData !== this.data) this.tip.replaceChildren(this.callbacks.describe(index, point));
    this.tipIndex = index;
    this.tipData = this.data;
    this.tip.hidden = false;
    const [x, y] = this.place(point);
    const w = this.tip.offsetWidth, hgt = this.tip.offsetHeight;
    const left = x + 18 + w < this.width ? x + 18 : Math.max(x - 18 - w, 4);
    this.tip.style.left = `${Math.min(left, Math.max(this.width - w - 4, 0))}px`;
    this.tip.style.top = `${Math.min(Math.max(y - hgt / 2, 4), Math.max(this.height - hgt - 4, 4))}px`;
  }

  nearest(x, y) {
    let best = null, least = 26 ** 2;
    const consider = (point, index) => {
      const [px, py] = this.place(point), d = (px - x) ** 2 + (py - y) ** 2;
      if (d < least) { least = d; best = index; }
    };
    for (const [i, p] of this.data.points.entries()) {
      if (this.dots[i].style.display !== "none" && this.visible(p.index)) consider(p, p.index);
    }
    consider(this.data.total, -1);
    this.others.forEach((o) => consider(o.point, o));
    return best;
  }

  zoom(factor, cx, cy) {
    const scale = (range, at) => range.map((v) => at + (v - at) * factor);
    const mid = (r) => (r[0] + r[1]) / 2;
    const x = scale(this.view.x, cx ?? mid(this.view.x)), y = scale(this.view.y, cy ?? mid(this.view.y));
    if (x[1] - x[0] < 0.02 || x[1] - x[0] > 60) return;
    this.view = { x, y };
    this.draw();
  }

  listen() {
    let from = null;
    const at = (e) => { const r = this.svg.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    this.svg.addEventListener("pointerdown", (e) => { from = { at: at(e), view: this.view, moved: false }; });
    this.svg.addEventListener("pointermove", (e) => {
      const [x, y] = at(e);
      if (from) this.pan(from, x, y, e.pointerId);
      else this.hover(this.nearest(x, y));
    });
    this.svg.addEventListener("pointerup", (e) => {
      const moved = from && from.moved;
      from = null;
      this.svg.classList.remove("moving");
      if (!moved) this.click(this.nearest(...at(e)));
    });
    this.svg.addEventListener("pointerleave", () => { if (!from) this.hover(null); });
    this.svg.addEventListener("pointercancel", () => { from = null; });
    this.svg.addEventListener("dblclick", () => this.reset());
    this.svg.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      const [x, y] = at(e), { left, top, right, bottom } = this.box, { x: [xa, xb], y: [ya, yb] } = this.view;
      this.zoom(e.deltaY < 0 ? 0.85 : 1 / 0.85, xa + (x - left) / (right - left) * (xb - xa), ya + (bottom - y) / (bottom - top) * (yb - ya));
    }, { passive: false });
    this.svg.addEventListener("keydown", (e) => this.key(e));
  }

  pan(from, x, y, pointer) {
    const dx = x - from.at[0], dy = y - from.at[1];
    if (!from.moved && Math.hypot(dx, dy) < 4) return;
    if (!from.moved) { this.svg.setPointerCapture(pointer); this.svg.classList.add("moving"); }
    from.moved = true;
    const { left, top, right, bottom } = this.box, { x: [xa, xb], y: [ya, yb] } = from.view;
    const mx = dx / (right - left) * (xb - xa), my = dy / (bottom - top) * (yb - ya);
    this.view = { x: [xa - mx, xb - mx], y: [ya + my, yb + my] };
    this.draw();
  }

  hover(found) {
    if (found !== null && typeof found !== "object") this.openTip(found);
    else if (this.selected !== null) this.openTip(this.selected);
    else this.tip.hidden = true;
  }

  click(found) {
    if (found !== null && typeof found === "object") this.callbacks.open(found.number);
    else this.callbacks.select(found === -1 ? null : found);
  }

  key(e) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (step) {
      const shown = this.data.points.filter((p) => this.visible(p.index));
      if (!shown.length) return;
      const now = shown.findIndex((p) => p.index === this.selected);
      const next = now < 0 ? 0 : (now + step + shown.length) % shown.length;
      this.callbacks.select(shown[next].index);
    } else if (e.key === "+" || e.key === "=") this.zoom(0.6);
    else if (e.key === "-") this.zoom(1 / 0.6);
    else if (e.key === "0") this.reset();
    else if (e.key === "Escape") this.callbacks.select(null);
    else return;
    e.preventDefault();
  }
}

// Decades within a range; halves or thirds of them when zoomed in, every other when there are many.
function ticks([a, b], most) {
  const all = [];
  for (let d = Math.ceil(a); d <= Math.floor(b); d += 1) all.push(d);
  if (all.length >= 2) return all.length > most ? all.filter((d) => d % 3 === 0) : all;
  const fine = [];
  for (let d = Math.floor(a); d <= Math.ceil(b); d += 1) for (const m of [1, 2, 5]) fine.push(d + log(m));
  return fine.filter((d) => d >= a && d <= b);
}
