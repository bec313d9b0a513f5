// What stands where: pixels of roofs, dots, margins and labels for one size of chart.

import { percent, whole } from "../format";
import { scale, type Scale } from "../scale";
import type { Roofline } from "../schema";
import type { Ends, Mark } from "./marks";
import { Room, widthOf, type Box } from "./room";

export interface Placed {
  mark: Mark;
  x: number;
  y: number;
  r: number;
}

/** Ops that have no place on the axes, as one marker. */
export interface Margin {
  side: string;
  label: string;
  marks: Mark[];
  x: number;
  y: number;
  /** Box of its label. */
  box: Box;
}

export interface Label extends Box {
  text: string;
  strong: boolean;
  /** Radians; the text of a memory roof runs along it. */
  turn: number;
  /** Where the text begins. */
  at: [number, number];
}

export interface Line {
  points: [number, number][];
  used: boolean;
  source: string;
}

export interface Scene {
  width: number;
  height: number;
  frame: Box;
  x: Scale;
  y: Scale;
  dots: Placed[];
  /** The same, largest first; what stands for the whole is last. */
  order: Placed[];
  margins: Margin[];
  roofs: Line[];
  ridge: [number, number] | null;
  labels: Label[];
}

const SIZE = 11;
const NAMED = 6;
const SIDES: Record<string, string> = {
  left: "without FLOPs",
  right: "without traffic",
  bottom: "without a time of their own",
};

export function radius(size: number, scaleBy = 1): number {
  return (3 + 8 * size) * scaleBy;
}

export function sceneOf(
  chart: Roofline,
  marks: Mark[],
  ends: Ends,
  width: number,
  height: number,
  share: (row: number) => number | null,
): Scene {
  const narrow = width < 520;
  const frame = { x: narrow ? 46 : 62, y: narrow ? 22 : 10, w: 0, h: 0 };
  frame.w = width - frame.x - 14;
  frame.h = height - frame.y - 44;
  const x = scale(ends.x, [frame.x, frame.x + frame.w], true);
  const y = scale(ends.y, [frame.y + frame.h, frame.y], true);
  const shrink = narrow ? 0.75 : 1;
  const dots = marks
    .filter((m) => m.x && m.y && !m.margin)
    .map((mark) => ({ mark, x: x(mark.x!), y: y(mark.y!), r: mark.row < 0 ? 9 : radius(mark.size, shrink) }));
  const room = new Room(frame);
  for (const dot of dots) room.takeDot(dot.x, dot.y, dot.r);
  const order = [...dots].sort((a, b) => Number(a.mark.row < 0) - Number(b.mark.row < 0) || b.r - a.r);
  const made: Scene = { width, height, frame, x, y, dots, order, margins: [], roofs: [], ridge: null, labels: [] };
  made.margins = margins(marks, frame, room, share);
  addRoofs(made, chart, ends, room);
  if (!narrow) addNames(made, room);
  return made;
}

function margins(marks: Mark[], frame: Box, room: Room, share: (row: number) => number | null): Margin[] {
  const found: Margin[] = [];
  for (const side of ["left", "right", "bottom"]) {
    const those = marks.filter((m) => m.margin === side && m.row >= 0);
    if (!those.length) continue;
    const ops = those.reduce((sum, m) => sum + m.count, 0);
    const shares = those.map((m) => share(m.row));
    const time = shares.some((s) => s !== null) ? shares.reduce<number>((sum, s) => sum + (s ?? 0), 0) : null;
    const label = `${whole(ops)} op${ops === 1 ? "" : "s"} ${SIDES[side]}${time === null ? "" : `, ${percent(time)} of the time`}`;
    const w = widthOf(label, SIZE) + 22;
    const places: Box[] = [];
    for (let row = 0; row < 12; row++) {
      const top = frame.y + frame.h - 24 - row * 20;
      const left = frame.x + 6;
      const right = frame.x + frame.w - w - 4;
      places.push({ x: side === "right" ? right : left, y: top, w, h: 18 });
    }
    const box = room.place(label, places) ?? places[0];
    found.push({ side, label, marks: those, x: box.x + 9, y: box.y + 9, box });
  }
  return found;
}

function addRoofs(scene: Scene, chart: Roofline, ends: Ends, room: Room): void {
  const { x, y, frame } = scene;
  const [left, right] = ends.x;
  const used = chart.slopes.filter((s) => s.used).map((s) => s.byte_per_s);
  const slope = used.length ? Math.min(...used) : null;
  const top = Math.max(0, ...chart.roofs.filter((r) => r.used).map((r) => r.peak_flop_per_s)) || ends.y[1];
  const inSight = chart.roofs.filter((r) => r.peak_flop_per_s <= ends.y[1] && r.peak_flop_per_s >= ends.y[0]);
  for (const roof of [...inSight].sort((a, b) => Number(b.used) - Number(a.used))) {
    const start = Math.min(slope ? Math.max(left, roof.peak_flop_per_s / slope) : left, right);
    const h = y(roof.peak_flop_per_s);
    scene.roofs.push({ points: [[x(start), h], [x(right), h]], used: roof.used, source: `${roof.label}: ${roof.source}` });
    const w = widthOf(roof.label, SIZE);
    const boxes: Box[] = [];
    for (let end = x(right) - 2; end - w > Math.max(x(start) - w * 0.6, frame.x); end -= 18) {
      boxes.push({ x: end - w, y: h - 16, w, h: 14 }, { x: end - w, y: h + 3, w, h: 14 });
    }
    label(scene, room, roof.label, boxes, roof.used);
  }
  for (const memory of chart.slopes) {
    const end = Math.min(right, top / memory.byte_per_s);
    const start = Math.max(left, ends.y[0] / memory.byte_per_s);
    if (end <= start) continue;
    const points: [number, number][] = [[x(start), y(start * memory.byte_per_s)], [x(end), y(end * memory.byte_per_s)]];
    scene.roofs.push({ points, used: memory.used, source: `${memory.label}: ${memory.source}` });
    alongSlope(scene, room, memory.label, points, memory.used);
  }
  const main = chart.ridges.find((r) => r.main);
  if (main && main.arithmetic_intensity > left && main.arithmetic_intensity < right) {
    scene.ridge = [x(main.arithmetic_intensity), y(main.flop_per_s)];
    const w = widthOf(main.label, SIZE);
    const boxes: Box[] = [];
    for (let h = frame.y + frame.h - 16; h > frame.y + 20; h -= 16) {
      boxes.push({ x: scene.ridge[0] + 4, y: h, w, h: 14 }, { x: scene.ridge[0] - w - 4, y: h, w, h: 14 });
    }
    label(scene, room, main.label, boxes, true);
  }
}

function label(scene: Scene, room: Room, text: string, boxes: Box[], strong: boolean): void {
  const box = room.place(text, boxes);
  if (box) scene.labels.push({ ...box, text, strong, turn: 0, at: [box.x + 2, box.y + 11] });
}

/** A text along a slanted roof: taken as small boxes, all of which must be free. */
function alongSlope(scene: Scene, room: Room, text: string, points: [number, number][], strong: boolean): void {
  const [[x0, y0], [x1, y1]] = points;
  const length = Math.hypot(x1 - x0, y1 - y0);
  const need = widthOf(text, SIZE);
  if (length < need + 8) return;
  const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
  const turn = Math.atan2(y1 - y0, x1 - x0);
  for (const off of [-8, 14]) {
    for (let from = length - need - 6; from >= 4; from -= 14) {
      const at: [number, number] = [x0 + dx * from - dy * off * -1, y0 + dy * from + dx * off];
      const boxes: Box[] = [];
      for (let d = 6; d < need; d += 10) {
        boxes.push({ x: at[0] + dx * d - 6 + dy * 4, y: at[1] + dy * d - 6 - dx * 4, w: 12, h: 12 });
      }
      if (!boxes.every((b) => room.free(b))) continue;
      boxes.forEach((b) => room.take(b));
      const xs = boxes.map((b) => b.x);
      const ys = boxes.map((b) => b.y);
      const box = { x: Math.min(...xs), y: Math.min(...ys), w: Math.max(...xs) + 12 - Math.min(...xs), h: Math.max(...ys) + 12 - Math.min(...ys) };
      scene.labels.push({ ...box, text, strong, turn, at });
      return;
    }
  }
}

/** Names of the whole and of the largest dots, where there is room. */
function addNames(scene: Scene, room: Room): void {
  const whole_ = scene.order.filter((d) => d.mark.row < 0);
  for (const { mark, x, y, r } of [...whole_, ...scene.order.slice(0, NAMED)].slice(0, NAMED)) {
    const times = mark.count > 1 ? ` ×${whole(mark.count)}` : "";
    const name = mark.row < 0 ? `${mark.name} (whole)` : mark.name;
    const text = `${name.length > 28 ? `…${name.slice(-27)}` : name}${times}`;
    const w = widthOf(text, SIZE);
    const boxes = [
      { x: x + r + 3, y: y - 7, w, h: 14 },
      { x: x - r - 3 - w, y: y - 7, w, h: 14 },
      { x: x - w / 2, y: y - r - 17, w, h: 14 },
      { x: x - w / 2, y: y + r + 3, w, h: 14 },
    ];
    label(scene, room, text, boxes, true);
  }
}
