// Free room for labels: what is taken is kept as rectangles in a coarse grid.

import { FONT } from "../surface";

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

const CELL = 48;
/** Dots this near to each other are one for labels, in pixels. */
const SAME = 2;

export class Room {
  private cells = new Map<number, Box[]>();
  private dots = new Map<number, number>();
  /** Labels that found a place. */
  readonly placed: (Box & { text: string })[] = [];

  constructor(private frame: Box) {}

  private *near(box: Box): Generator<number> {
    for (let i = Math.floor(box.x / CELL); i <= Math.floor((box.x + box.w) / CELL); i++) {
      for (let j = Math.floor(box.y / CELL); j <= Math.floor((box.y + box.h) / CELL); j++) yield i * 4096 + j;
    }
  }

  take(box: Box): void {
    for (const cell of this.near(box)) {
      const list = this.cells.get(cell);
      if (list) list.push(box);
      else this.cells.set(cell, [box]);
    }
  }

  /** A dot; one that lies within another of about the same place takes no more room. */
  takeDot(x: number, y: number, r: number): void {
    const f = this.frame;
    if (x + r < f.x || y + r < f.y || x - r > f.x + f.w || y - r > f.y + f.h) return;
    const key = Math.round(x / SAME) * 8192 + Math.round(y / SAME);
    if ((this.dots.get(key) ?? 0) >= r) return;
    this.dots.set(key, r);
    this.take({ x: x - r, y: y - r, w: 2 * r, h: 2 * r });
  }

  free(box: Box): boolean {
    const f = this.frame;
    if (box.x < f.x || box.y < f.y || box.x + box.w > f.x + f.w || box.y + box.h > f.y + f.h) return false;
    for (const cell of this.near(box)) {
      for (const b of this.cells.get(cell) ?? []) {
        if (box.x < b.x + b.w && b.x < box.x + box.w && box.y < b.y + b.h && b.y < box.y + box.h) return false;
      }
    }
    return true;
  }

  /** Takes the first free box for a text; null where there is none. */
  place(text: string, boxes: Iterable<Box>): Box | null {
    for (const box of boxes) {
      if (!this.free(box)) continue;
      this.take(box);
      this.placed.push({ ...box, text });
      return box;
    }
    return null;
  }
}

const MOST = 4096;
const widths = new Map<string, number>();
let ruler: CanvasRenderingContext2D | null = null;

/** The width of a text in the page's font, with a little room. */
export function widthOf(text: string, size: number): number {
  const key = `${size} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    ruler ??= document.createElement("canvas").getContext("2d")!;
    ruler.font = `${size}px ${FONT}`;
    width = ruler.measureText(text).width + 4;
    if (widths.size >= MOST) widths.clear();
    widths.set(key, width);
  }
  return width;
}
