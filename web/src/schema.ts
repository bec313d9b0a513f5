// The data of a page, version 1. `gambrel.report.page` writes it; README.md describes it.
// A number that is an index of `strings` is a `Text`.

export type Text = number;
export type Maybe = number | null;

export interface PageData {
  schema: number;
  /** Kind of result, e.g. "gambrel/analysis", or "document". */
  type: string;
  /** Of gambrel. */
  version: string;
  title: string;
  /** Every text of a column, once. */
  strings: string[];
  /** What the key of a column or figure means, and its unit. */
  terms: Record<string, { about?: string; unit?: string }>;
  /** At least one; a reader chooses among several. */
  views: View[];
}

export interface View {
  label: string;
  title: string;
  aside: string;
  style: string;
  answer: string[];
  figures: Figure[];
  charts: Chart[];
  sections: Section[];
  commands: { shell?: string; python?: string };
}

export interface Figure {
  label: string;
  text: string;
  note?: string;
  key?: string;
  formula?: string;
  source?: string;
  confidence?: string;
}

export interface Section {
  about: string;
  folded: boolean;
  blocks: Block[];
}

export type Block = Facts | Notes | Table;

export interface Facts {
  kind: "facts";
  heading: string;
  items: [string, string][];
}

export interface Notes {
  kind: "notes";
  heading: string;
  items: string[];
  style: string;
}

export interface Table {
  kind: "table";
  heading?: string;
  note?: string;
  rows: number;
  columns: Column[];
  shares?: Maybe[];
  whole?: string;
  /** What the rest of the whole is that belongs to no row. */
  outside?: string;
  /** Its rows are the dots of the view's roofline. */
  linked?: boolean;
  /** What a row says on request. */
  details?: Detail[];
}

/** Texts, or numbers in one unit with a word before each. */
export interface Detail {
  title: string;
  text?: Text[];
  numbers?: Record<string, Maybe[]>;
  unit?: string;
}

export interface Column {
  title: string;
  key?: string;
  align: "left" | "right";
  text: Text[];
  /** In base SI units. */
  value?: Maybe[];
  styles?: Text[];
  /** 0 or absent stays at every width; of the others the largest goes first. */
  priority?: number;
}

export type Chart = Roofline | Curves | Bars;

export interface Roof {
  label: string;
  used: boolean;
  source: string;
}

export interface Roofline {
  kind: "roofline";
  title: string;
  /** Rates of dots were measured. */
  measured: boolean;
  /** What the kinds of dots are: "kind" of op, or "memory level". */
  kind_label: string;
  x: { title: string; ends: [number, number]; unit: string };
  y: { title: string; ends: [number, number]; unit: string };
  roofs: (Roof & { peak_flop_per_s: number })[];
  slopes: (Roof & { byte_per_s: number })[];
  ridges: { arithmetic_intensity: number; flop_per_s: number; main: boolean; label: string }[];
  /** Kind of op to shape. */
  shapes: Record<string, string>;
  points: Points;
  /** x and y before, x and y after, colour. */
  moves: [number, number, number, number, string][];
  levels: Levels | null;
}

/** One entry a dot. `rate` is at the roofline, or measured. */
export interface Points {
  row: number[];
  name: Text[];
  kind: Text[];
  module: Text[];
  bound: Text[];
  shape: Text[];
  margin: Text[];
  note: Text[];
  x?: Maybe[];
  rate?: Maybe[];
  expected?: Maybe[];
  low?: Maybe[];
  high?: Maybe[];
  roof?: Maybe[];
  size?: Maybe[];
  along?: Maybe[];
  count?: Maybe[];
}

export interface Levels {
  names: string[];
  byte_per_s: Maybe[] | null;
  row: number[];
  rate: Maybe[];
  /** One column of intensities a level. */
  x: Maybe[][];
}

export interface Axis {
  title: string;
  unit: string;
  ends: [number, number] | null;
  linear: boolean;
}

/** Any other chart over two axes; `gambrel.report.picture.Chart`. */
export interface Curves {
  kind: "curves";
  title: string;
  about: string;
  x: Axis;
  y: Axis;
  curves: {
    name: string;
    points: [number, number][];
    style: "solid" | "dashed" | "faint" | "dots" | "area";
    color: number | string;
    about: string;
  }[];
  levels: { name: string; value: number }[];
  mark: [number, number] | null;
  dots: {
    at: [number, number];
    shape: string;
    color: number | string;
    size: number;
    hollow: boolean;
    group: string;
    about: string[];
  }[];
  arrows: { start: [number, number]; end: [number, number]; color: number | string }[];
  notes: { at: [number, number]; text: string; side: "left" | "right"; faint: boolean; slanted: boolean }[];
  legend: { text: string; shape: string; color: number | string; hollow: boolean }[];
  /** Limits that a reader drags: dots beyond them fade. */
  limits: Limit[];
}

export interface Limit {
  axis: "x" | "y";
  name: string;
  /** Which side of the limit is allowed. */
  keep: "above" | "below";
  value: number | null;
}

/** Horizontal bars; `gambrel.report.picture.Bars`. */
export interface Bars {
  kind: "bars";
  title: string;
  about: string;
  unit: string;
  series: string[];
  /** What the colours mean. */
  legend: Curves["legend"];
  rows: {
    name: string;
    values: Maybe[];
    color: string;
    note: string;
    /** Ends of the range of the first value. */
    ends: [number, number] | null;
    /** Why there is no value. */
    missing: string;
  }[];
}
