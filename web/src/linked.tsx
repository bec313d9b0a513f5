// A roofline with its table of ops: one filter, one choice, seen by both.

import { useMemo, useState } from "preact/hooks";

import { Kinds, Treemap, type Part } from "./breakdown";
import { Rows } from "./columns";
import { Download } from "./download";
import { percent, whole } from "./format";
import { RooflineChart } from "./roofline/chart";
import { marksOf, type Mark } from "./roofline/marks";
import type { PageData, Roofline, Table } from "./schema";
import { TableView } from "./table";

export interface Filter {
  query: string;
  module: string;
  kind: string;
  bound: string;
  least: number;
}

const ALL: Filter = { query: "", module: "", kind: "", bound: "", least: 0 };
/** Stands for ops outside all modules. */
const TOP = "(top)";
const SHARES = [0, 0.001, 0.01, 0.05];

export interface LinkedState {
  rows: Rows;
  marks: Mark[];
  /** What the kinds of dots are called. */
  kindLabel: string;
  /** The module of a dot, as deep as modules are told apart. */
  moduleOf(mark: Mark): string;
  filter: Filter;
  shown: Set<number> | null;
  hover: number | null;
  chosen: number | null;
  setFilter(filter: Filter | ((old: Filter) => Filter)): void;
  setHover(row: number | null): void;
  setChosen(row: number | null): void;
}

/** The state that a roofline and its table share. */
export function useLinked(chart: Roofline, table: Table, page: PageData): LinkedState {
  const rows = useMemo(() => new Rows(table, page), [table, page]);
  const marks = useMemo(() => marksOf(chart, page).filter((m) => m.row >= 0), [chart, page]);
  const [filter, setFilter] = useState(ALL);
  const [hover, setHover] = useState<number | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const moduleOf = useMemo(() => cutting(marks, rows), [marks, rows]);
  const shown = useMemo(() => shownRows(rows, marks, filter, moduleOf), [rows, marks, filter, moduleOf]);
  return { rows, marks, kindLabel: chart.kind_label, moduleOf, filter, shown, hover, chosen, setFilter, setHover, setChosen };
}

/** What part of the whole belongs to no row, by its name. */
function outsideOf(rows: Rows): Part | null {
  const name = rows.table.outside;
  const rest = 1 - (rows.table.shares ?? []).reduce<number>((sum, s) => sum + (s ?? 0), 0);
  return name && rest > 0.001 ? { name, value: rest, bound: "overhead" } : null;
}

const DEEPEST = 5;
const TILES = 30;

/** Cuts paths of modules where no part has most of the time, or there are as many as can be seen. */
function cutting(marks: Mark[], rows: Rows): (mark: Mark) => string {
  let depth = 1;
  const at = (mark: Mark, d: number) => mark.module.split(".").slice(0, d).join(".");
  for (let d = 1; d <= DEEPEST; d++) {
    const sums = new Map<string, number>();
    for (const m of marks) sums.set(at(m, d), (sums.get(at(m, d)) ?? 0) + (rows.share(m.row) ?? 0));
    if (sums.size > TILES) break;
    depth = d;
    const total = [...sums.values()].reduce((a, b) => a + b, 0);
    if (Math.max(...sums.values()) < 0.4 * total) break;
  }
  return (mark) => at(mark, depth);
}

function shownRows(rows: Rows, marks: Mark[], f: Filter, moduleOf: (mark: Mark) => string): Set<number> | null {
  if (!f.query && !f.module && !f.kind && !f.bound && !f.least) return null;
  const found = rows.matching(f.query);
  const shown = new Set<number>();
  for (const m of marks) {
    if (f.module && (moduleOf(m) || TOP) !== f.module) continue;
    if (f.kind && m.kind !== f.kind) continue;
    if (f.bound && m.bound !== f.bound) continue;
    if (f.least && !((rows.share(m.row) ?? 0) >= f.least)) continue;
    if (!found || found.has(m.row)) shown.add(m.row);
  }
  return shown;
}

export function LinkedChart({ chart, page, state }: { chart: Roofline; page: PageData; state: LinkedState }) {
  const share = useMemo(() => (row: number) => (row < 0 ? null : state.rows.share(row)), [state.rows]);
  return (
    <RooflineChart
      chart={chart}
      page={page}
      shown={state.shown}
      hover={state.hover}
      chosen={state.chosen}
      onHover={state.setHover}
      onChoose={state.setChosen}
      share={share}
    />
  );
}

/** Sums of shares by a property of the dots, largest first. */
function partsOf(state: LinkedState, of: (mark: Mark) => string): Part[] {
  const sums = new Map<string, { value: number; bounds: Map<string, number> }>();
  const seen = new Set<number>();
  for (const mark of state.marks) {
    if (seen.has(mark.row)) continue;
    seen.add(mark.row);
    const share = state.rows.share(mark.row) ?? 0;
    const name = of(mark) || TOP;
    const sum = sums.get(name) ?? { value: 0, bounds: new Map() };
    sum.value += share;
    sum.bounds.set(mark.bound, (sum.bounds.get(mark.bound) ?? 0) + share);
    sums.set(name, sum);
  }
  const parts = [...sums].map(([name, { value, bounds }]) => {
    const bound = [...bounds].sort((a, b) => b[1] - a[1])[0][0];
    return { name, value, bound };
  });
  return parts.filter((p) => p.value > 0).sort((a, b) => b.value - a.value);
}

export function Breakdown({ state }: { state: LinkedState }) {
  const modules = useMemo(() => partsOf(state, state.moduleOf), [state.rows, state.marks]);
  const kinds = useMemo(() => (state.kindLabel === "kind" ? partsOf(state, (m) => m.kind) : []), [state.rows, state.marks]);
  const outside = useMemo(() => outsideOf(state.rows), [state.rows]);
  // A search does not change it.
  return useMemo(() => {
    if (!kinds.length && modules.length < 2) return null;
    const set = (change: Partial<Filter>) => state.setFilter((filter) => ({ ...filter, ...change }));
    return (
      <section class="breakdown" aria-label="Where the time goes">
        {modules.length > 1 && (
          <div>
            <h2>Time by module</h2>
            <Treemap parts={modules} chosen={state.filter.module} onChoose={(module) => set({ module })} />
          </div>
        )}
        {kinds.length > 0 && <div>
          <h2>Time by kind</h2>
          <Kinds parts={kinds} outside={outside} chosen={state.filter.kind} onChoose={(kind) => set({ kind })} />
        </div>}
      </section>
    );
  }, [modules, kinds, outside, state.filter.module, state.filter.kind]);
}

export function LinkedTable({ state }: { state: LinkedState }) {
  const { rows, filter, shown } = state;
  const set = (change: Partial<Filter>) => state.setFilter({ ...filter, ...change });
  const names = (of: (m: Mark) => string) => [...new Set(state.marks.map(of))].filter(Boolean).sort();
  const [modules, kinds, bounds] = useMemo(
    () => [names((m) => state.moduleOf(m) || TOP), names((m) => m.kind), names((m) => m.bound)],
    [state.marks],
  );
  const list = shown ? [...shown] : Array.from({ length: rows.count }, (_, i) => i);
  const time = list.reduce((sum, row) => sum + (rows.share(row) ?? 0), 0);
  const heading = rows.table.heading || "Ops";
  return (
    <section class="linked" aria-label={heading}>
      <h2>{heading}</h2>
      <div class="bar filters">
        <label>search <input type="search" value={filter.query} placeholder="name, kind, shape" autocomplete="off" spellcheck={false} onInput={(e) => set({ query: e.currentTarget.value })} /></label>
        <Choice label="module" value={filter.module} options={modules} onChange={(module) => set({ module })} />
        <Choice label={state.kindLabel} value={filter.kind} options={kinds} onChange={(kind) => set({ kind })} />
        <Choice label="bound" value={filter.bound} options={bounds} onChange={(bound) => set({ bound })} />
        {rows.table.shares && <label>
          share of time{" "}
          <select value={String(filter.least)} onChange={(e) => set({ least: Number(e.currentTarget.value) })}>
            {SHARES.map((s) => <option value={String(s)}>{s ? `at least ${percent(s)}` : "any"}</option>)}
          </select>
        </label>}
        {shown && <button type="button" onClick={() => state.setFilter(ALL)}>clear</button>}
        <output aria-live="polite">
          {whole(list.length)} of {whole(rows.count)} {rows.count === 1 ? "row" : "rows"}{rows.table.whole ? `, ${percent(time)} of ${rows.table.whole}` : ""}
        </output>
        <Download name="ops" csv={() => rows.csv(list)} />
      </div>
      <TableView
        rows={rows}
        shown={shown}
        hover={state.hover}
        chosen={state.chosen}
        onHover={state.setHover}
        onChoose={state.setChosen}
        label={heading}
      />
      {rows.table.note && <p class="soft">{rows.table.note}</p>}
    </section>
  );
}

function Choice({ label, value, options, onChange }: { label: string; value: string; options: string[]; onChange(value: string): void }) {
  if (options.length < 2) return null;
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        <option value="">all</option>
        {options.map((o) => <option value={o}>{o}</option>)}
      </select>
    </label>
  );
}
