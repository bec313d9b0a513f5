// Tables decoded from columns: texts, numbers, order, and CSV.

import { csvText } from "./download";
import { si } from "./format";
import type { Column, Detail, PageData, Table } from "./schema";

/** Characters that the first column, which names the rows, keeps at least. */
const NARROW = 17;

export class Rows {
  readonly count: number;
  /** The texts of the page in small letters, each once. */
  private lower: string[] | null = null;
  /** And as they are ordered. */
  private keys: string[] | null = null;

  constructor(
    readonly table: Table,
    readonly page: PageData,
  ) {
    this.count = table.rows;
  }

  text(column: Column, row: number): string {
    return this.page.strings[column.text[row]];
  }

  value(column: Column, row: number): number | null {
    return column.value?.[row] ?? null;
  }

  column(key: string): Column | undefined {
    return this.table.columns.find((c) => c.key === key);
  }

  share(row: number): number | null {
    return this.table.shares?.[row] ?? null;
  }

  /** Width of each column in characters: of its longest text, up to a limit. */
  widths(): number[] {
    return this.table.columns.map((c) => {
      let longest = c.title.length + 2;
      for (const text of c.text) longest = Math.max(longest, this.page.strings[text].length);
      return Math.min(longest, 46) * 1.05 + 3;
    });
  }

  /** The columns that fit into so many characters by their priority, and how wide each is. */
  fitting(room: number): { column: Column; width: number }[] {
    const columns = this.table.columns.map((column, at) => ({ column, at, width: this.widths()[at] }));
    if (!room || columns.reduce((sum, c) => sum + c.width, 0) <= room) return columns;
    const [first, ...others] = columns;
    const least = Math.min(first.width, NARROW);
    let spare = room - least;
    const kept = new Set<number>();
    for (const c of [...others].sort((a, b) => (a.column.priority ?? 0) - (b.column.priority ?? 0) || a.at - b.at)) {
      if (c.width > spare) continue;
      kept.add(c.at);
      spare -= c.width;
    }
    return [{ ...first, width: Math.min(first.width, least + spare) }, ...others.filter((c) => kept.has(c.at))];
  }

  /** What a detail says of a row; empty where it says nothing. */
  detail(detail: Detail, row: number): string {
    if (detail.text) return this.page.strings[detail.text[row]];
    const parts = Object.entries(detail.numbers ?? {}).filter(([, column]) => column[row]);
    return parts.map(([word, column]) => `${word} ${si(column[row], detail.unit ?? "")}`.trim()).join(detail.numbers?.to ? " " : ", ");
  }

  /** Rows in the order of a column; what is unknown comes last. */
  sorted(rows: number[], column: Column | null, down: boolean): number[] {
    if (!column) return rows;
    const sign = down ? -1 : 1;
    if (column.value) {
      const value = column.value;
      return [...rows].sort((a, b) => {
        const [x, y] = [value[a], value[b]];
        if (x === null || y === null) return Number(x === null) - Number(y === null) || a - b;
        return sign * (x - y) || a - b;
      });
    }
    this.keys ??= this.page.strings.map(natural);
    const [keys, { text }] = [this.keys, column];
    return [...rows].sort((a, b) => {
      const [x, y] = [keys[text[a]], keys[text[b]]];
      return x === y ? a - b : x < y ? -sign : sign;
    });
  }

  /** Rows whose texts contain every word. */
  matching(query: string): Set<number> | null {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    const columns = this.table.columns.filter((c) => c.align === "left").map((c) => c.text);
    this.lower ??= this.page.strings.map((text) => text.toLowerCase());
    const hits = words.map((word) => this.lower!.map((text) => text.includes(word)));
    const shown = new Set<number>();
    for (let row = 0; row < this.count; row++) {
      if (hits.every((hit) => columns.some((column) => hit[column[row]]))) shown.add(row);
    }
    return shown;
  }

  csv(rows: number[]): string {
    const { columns } = this.table;
    return csvText([columns.map((c) => c.key || c.title), ...rows.map((row) => columns.map((c) => (c.value ? this.value(c, row) : this.text(c, row))))]);
  }

  /** As records in base SI units. */
  records(): Record<string, unknown>[] {
    return Array.from({ length: this.count }, (_, row) =>
      Object.fromEntries(
        this.table.columns.map((c) => [c.key || c.title, c.value ? this.value(c, row) : this.text(c, row)]),
      ),
    );
  }
}

/** A key whose plain order is the natural one: "layer10" after "layer9", small and large letters alike. */
const natural = (text: string): string => text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));
