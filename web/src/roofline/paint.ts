// Draws a scene: grid, roofs, then for each dot its headroom, range and ghost, then dots and labels.

import { onAxis } from "../format";
import { below, ticks } from "../scale";
import type { Roofline } from "../schema";
import { shape, type Surface } from "../surface";
import type { Theme } from "../theme";
import type { Placed, Scene } from "./scene";

export interface Focus {
  /** Row that the reader points at, and the one that is chosen. */
  hover: number | null;
  chosen: number | null;
  levels: boolean;
}

const MANY = 400;

export function paint(on: Surface, chart: Roofline, scene: Scene, theme: Theme, focus: Focus): void {
  const { frame: f } = scene;
  grid(on, chart, scene, theme);
  on.clip(f.x, f.y, f.w, f.h, () => {
    roofs(on, scene, theme);
    if (focus.levels && chart.levels) levels(on, chart, scene, theme);
    else dots(on, chart, scene, theme, focus);
  });
  margins(on, scene, theme, focus);
  for (const l of scene.labels) {
    on.text(l.at[0], l.at[1], l.text, { size: 11, color: l.strong ? theme.ink : theme.soft, turn: l.turn, halo: theme.ground });
  }
}

function grid(on: Surface, chart: Roofline, scene: Scene, theme: Theme): void {
  const { frame: f, x, y } = scene;
  const [right, bottom] = [f.x + f.w, f.y + f.h];
  for (const v of ticks([x.low, x.high], f.w / 70, true)) {
    on.path([[x(v), f.y], [x(v), bottom]], { stroke: theme.line, width: 1 });
    const label = onAxis(v, chart.x.unit === "FLOP/byte" ? "FLOP/byte" : "");
    const at = below(x(v), label, right + 13);
    on.text(at.x, bottom + 16, label, { size: 11, color: theme.soft, anchor: at.anchor });
  }
  for (const v of ticks([y.low, y.high], f.h / 34, true)) {
    on.path([[f.x, y(v)], [right, y(v)]], { stroke: theme.line, width: 1 });
    on.text(f.x - 6, y(v) + 4, onAxis(v, ""), { size: 11, color: theme.soft, anchor: "end" });
  }
  on.path([[f.x, f.y], [right, f.y], [right, bottom], [f.x, bottom]], { stroke: theme.line }, true);
  on.text(f.x + f.w / 2, bottom + 34, chart.x.title, { size: 12, color: theme.soft, anchor: "middle" });
  const title = chart.measured ? chart.y.title : chart.y.unit;
  // Beside the numbers where there is room, else above them.
  if (f.x < 60) on.text(2, 12, title, { size: 12, color: theme.soft });
  else on.text(12, f.y + f.h / 2, title, { size: 12, color: theme.soft, anchor: "middle", turn: -Math.PI / 2 });
}

function roofs(on: Surface, scene: Scene, theme: Theme): void {
  for (const roof of scene.roofs) {
    const style = roof.used ? { stroke: theme.ink, width: 1.8 } : { stroke: theme.of("grey"), width: 1, dash: [4, 3] };
    on.path(roof.points, style);
  }
  if (scene.ridge) {
    const [x, top] = scene.ridge;
    on.path([[x, top], [x, scene.frame.y + scene.frame.h]], { stroke: theme.of("grey"), width: 1, dash: [3, 3] });
  }
}

function dots(on: Surface, chart: Roofline, scene: Scene, theme: Theme, focus: Focus): void {
  const { order } = scene;
  const detailed = order.filter((d, i) => i < MANY || isOn(d, focus));
  for (const dot of detailed) whisker(on, dot, scene, theme, isOn(dot, focus));
  for (const [x0, y0, x1, y1, color] of chart.moves) arrow(on, scene, [x0, y0], [x1, y1], theme.of(color));
  const large = order.filter((d, i) => i < MANY || d.mark.row < 0 || isOn(d, focus));
  if (large.length < order.length) small(on, order.slice(MANY), scene, theme);
  for (const dot of large) body(on, dot, theme, isOn(dot, focus));
}

/**
 * Dots beyond the largest ones, plain and all of one look at once. They come largest first, so that one that would fall
 * on the pixel of another of its look adds nothing.
 */
function small(on: Surface, dots: Placed[], scene: Scene, theme: Theme): void {
  const { frame: f } = scene;
  const looks = new Map<string, { seen: Set<number>; list: Placed[] }>();
  for (const dot of dots) {
    const { mark, x, y, r } = dot;
    if (mark.row < 0 || x + r < f.x || y + r < f.y || x - r > f.x + f.w || y - r > f.y + f.h) continue;
    const key = `${mark.shape} ${mark.bound} ${mark.filled}`;
    let look = looks.get(key);
    if (!look) looks.set(key, (look = { seen: new Set(), list: [] }));
    const pixel = Math.round(x) * 8192 + Math.round(y);
    if (look.seen.has(pixel)) continue;
    look.seen.add(pixel);
    look.list.push(dot);
  }
  for (const { list } of looks.values()) {
    const { shape: name, bound, filled } = list[0].mark;
    on.shapes(name, list.map((d) => [d.x, d.y, d.r]), { fill: theme.of(bound), alpha: filled ? 0.9 : 0.6 });
  }
}

const isOn = (dot: Placed, focus: Focus): boolean =>
  dot.mark.row >= 0 && (dot.mark.row === focus.hover || dot.mark.row === focus.chosen);

function whisker(on: Surface, dot: Placed, scene: Scene, theme: Theme, strong: boolean): void {
  const { mark, x, y } = dot;
  const color = theme.of(mark.bound);
  const alpha = strong ? 1 : 0.45;
  const roof = mark.roof ?? mark.ghost;
  if (roof !== null && mark.y !== null && roof > mark.y) {
    on.path([[x, y], [x, scene.y(roof)]], { stroke: color, width: 0.8, dash: [1, 3], alpha });
  }
  if (mark.ghost !== null) shape(on, mark.shape, x, scene.y(mark.ghost), Math.max(2.5, dot.r * 0.6), { stroke: color, width: 1, alpha });
  if (mark.low !== null && mark.high !== null) {
    const [a, b] = [scene.y(mark.low), scene.y(mark.high)];
    on.path([[x, a], [x, b]], { stroke: color, width: strong ? 3 : 2, alpha: strong ? 1 : 0.6 });
    for (const end of [a, b]) on.path([[x - 3, end], [x + 3, end]], { stroke: color, width: 1.2, alpha: strong ? 1 : 0.6 });
  }
}

function body(on: Surface, dot: Placed, theme: Theme, strong: boolean): void {
  const { mark, x, y, r } = dot;
  if (mark.row < 0) {
    shape(on, "star", x, y, r, { fill: theme.of("star"), stroke: "#1d2129", width: 1.2 });
    return;
  }
  const color = theme.of(mark.bound);
  // A measured dot is full, an expected one is light inside.
  shape(on, mark.shape, x, y, r, { fill: theme.ground });
  shape(on, mark.shape, x, y, r, { fill: color, stroke: color, width: 1, alpha: mark.filled ? 0.95 : 0.55 });
  shape(on, mark.shape, x, y, r, { stroke: strong ? theme.ink : mark.filled ? theme.ground : color, width: strong ? 2.4 : 1 });
}

function arrow(on: Surface, scene: Scene, from: [number, number], to: [number, number], color: string): void {
  const [a, b] = [scene.x(from[0]), scene.y(from[1])];
  const [c, d] = [scene.x(to[0]), scene.y(to[1])];
  const angle = Math.atan2(d - b, c - a);
  on.path([[a, b], [c, d]], { stroke: color, width: 1.4, alpha: 0.8 });
  on.circle(a, b, 3.5, { stroke: color, width: 1.4 });
  if (Math.hypot(c - a, d - b) < 4) return;
  const tip = (turn: number): [number, number] => [c - 8 * Math.cos(angle + turn), d - 8 * Math.sin(angle + turn)];
  on.path([tip(0.4), [c, d], tip(-0.4)], { stroke: color, width: 1.4 });
}

function levels(on: Surface, chart: Roofline, scene: Scene, theme: Theme): void {
  const l = chart.levels!;
  const shown = new Set(scene.dots.map((d) => d.mark.row));
  l.row.forEach((row, i) => {
    const rate = l.rate[i];
    if (rate === null || !shown.has(row)) return;
    const places = l.x.flatMap((column, level) => (column[i] ? [[level, scene.x(column[i]!)] as const] : []));
    const h = scene.y(rate);
    if (places.length > 1) on.path(places.map(([, x]) => [x, h]), { stroke: theme.of("grey"), width: 0.8, alpha: 0.7 });
    for (const [level, x] of places) {
      shape(on, row < 0 ? "star" : "circle", x, h, row < 0 ? 8 : 5 - level * 0.7, { fill: theme.of(l.names[level]), stroke: theme.ground, width: 0.7 });
    }
  });
}

function margins(on: Surface, scene: Scene, theme: Theme, focus: Focus): void {
  for (const m of scene.margins) {
    const strong = m.marks.some((mark) => mark.row === focus.hover || mark.row === focus.chosen);
    const color = theme.of("memory");
    on.circle(m.x, m.y, 6, { stroke: strong ? theme.ink : color, width: strong ? 2.4 : 1.6, fill: theme.ground });
    on.path([[m.x - 3, m.y], [m.x + 3, m.y]], { stroke: strong ? theme.ink : color, width: 1.6 });
    on.text(m.x + 11, m.y + 4, m.label, { size: 11, color: theme.ink, halo: theme.ground });
  }
}
