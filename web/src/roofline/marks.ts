// Dots of a roofline, decoded from columns, and where each of them goes.

import type { PageData, Roofline } from "../schema";

export interface Mark {
  /** Place in the columns. */
  index: number;
  /** Row of the linked table; -1 for the whole. */
  row: number;
  name: string;
  kind: string;
  module: string;
  bound: string;
  shape: string;
  /** Empty, or the edge at which it stands: "left" (no work), "right" (no traffic), "bottom". */
  margin: string;
  note: string;
  x: number | null;
  /** Where it is drawn: measured, else expected, else at the roofline. */
  y: number | null;
  /** At the roofline; of a measured dot, as expected. */
  ghost: number | null;
  low: number | null;
  high: number | null;
  /** The roof above it. */
  roof: number | null;
  size: number;
  count: number;
  /** It was measured. */
  filled: boolean;
}

export function marksOf(chart: Roofline, page: PageData): Mark[] {
  const p = chart.points;
  const text = (column: number[], i: number) => page.strings[column[i]];
  return p.row.map((row, i) => {
    const rate = p.rate?.[i] ?? null;
    const expected = p.expected?.[i] ?? null;
    const measured = chart.measured && rate !== null;
    return {
      index: i,
      row,
      name: text(p.name, i),
      kind: text(p.kind, i),
      module: text(p.module, i),
      bound: text(p.bound, i),
      shape: row < 0 ? text(p.shape, i) : (chart.shapes[text(p.kind, i)] ?? text(p.shape, i)),
      margin: text(p.margin, i),
      note: text(p.note, i),
      x: p.x?.[i] ?? null,
      y: measured ? rate : (expected ?? rate),
      ghost: measured ? expected : expected === null ? null : rate,
      low: p.low?.[i] ?? null,
      high: p.high?.[i] ?? null,
      roof: p.roof?.[i] ?? null,
      size: p.size?.[i] ?? 0,
      count: p.count?.[i] ?? 1,
      filled: measured,
    };
  });
}

export interface Ends {
  x: [number, number];
  y: [number, number];
}

/** Limits that hold both. */
export function joined(a: Ends, b: Ends): Ends {
  const wide = ([x, y]: [number, number], [u, v]: [number, number]): [number, number] => [Math.min(x, u), Math.max(y, v)];
  return { x: wide(a.x, b.x), y: wide(a.y, b.y) };
}

/** Limits within which every dot, range and used roof is in sight. */
export function endsOf(chart: Roofline, marks: Mark[]): Ends {
  const xs = marks.flatMap((m) => (m.x ? [m.x] : []));
  xs.push(...chart.ridges.map((r) => r.arithmetic_intensity));
  const ys = marks.flatMap((m) => [m.y, m.ghost, m.low, m.high].filter((v): v is number => !!v));
  ys.push(...chart.roofs.filter((r) => r.used).map((r) => r.peak_flop_per_s));
  for (const [x0, y0, x1, y1] of chart.moves) {
    xs.push(x0, x1);
    ys.push(y0, y1);
  }
  return { x: span(xs, chart.x.ends, 100), y: span(ys, chart.y.ends, 1000) };
}

function span(values: number[], empty: [number, number], least: number): [number, number] {
  if (!values.length) return empty;
  let low = values[0];
  let high = values[0];
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  low /= 2;
  high *= 2;
  const widen = Math.sqrt(Math.max(1, least / (high / low)));
  return [low / widen, high * widen];
}

/** Marks whose area is their row's share of the time, where shares are known. */
export function sized(marks: Mark[], share: (row: number) => number | null): Mark[] {
  const shares = marks.map((m) => (m.row < 0 ? 0 : (share(m.row) ?? 0)));
  const largest = shares.reduce((a, b) => Math.max(a, b), 0);
  if (!largest) return marks;
  return marks.map((m, i) => ({ ...m, size: Math.sqrt(shares[i] / largest) }));
}
