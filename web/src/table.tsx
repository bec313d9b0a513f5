// A table that sorts; of long ones only the rows in sight are in the document.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Rows } from "./columns";
import { useExplain } from "./explain";
import { si } from "./format";
import type { Column } from "./schema";
import { useWidth } from "./width";

const ROW = 29;
const AHEAD = 8;
/** Pixels of a character of a table. */
const CHARACTER = 8.9;
/** Rows up to which all are drawn. */
const FEW = 60;
/** At least the height of the window on the rows; reading it would lay the page out. */
const HIGH = 600;

interface Props {
  rows: Rows;
  /** Rows to show, in the order of the data; null for all. */
  shown: Set<number> | null;
  hover?: number | null;
  chosen?: number | null;
  onHover?(row: number | null): void;
  onChoose?(row: number | null): void;
  label: string;
}

interface Order {
  column: Column | null;
  down: boolean;
}

export function TableView({ rows, shown, hover, chosen, onHover, onChoose, label }: Props) {
  const [order, setOrder] = useState<Order>({ column: null, down: false });
  const [top, setTop] = useState(0);
  const [printing, setPrinting] = useState(false);
  const [column, setColumn] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const explain = useExplainCell(rows);
  const list = useMemo(() => {
    const all = Array.from({ length: rows.count }, (_, i) => i);
    return rows.sorted(shown ? all.filter((row) => shown.has(row)) : all, order.column, order.down);
  }, [rows, shown, order]);

  useEffect(() => {
    const before = () => setPrinting(true);
    const after = () => setPrinting(false);
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, []);

  const [outer, pixels] = useWidth<HTMLDivElement>();
  const [all, setAll] = useState(false);
  const shownColumns = useMemo(() => rows.fitting(all ? 0 : Math.floor(pixels / CHARACTER)), [rows, all, pixels]);
  const columns = shownColumns.map((c) => c.column);
  const hidden = rows.table.columns.length - columns.length;
  const fixed = rows.count > FEW || hidden > 0;
  const virtual = list.length > FEW && !printing;
  const first = virtual ? Math.max(0, Math.floor(top / ROW) - AHEAD) : 0;
  const last = virtual ? Math.min(list.length, Math.ceil((top + HIGH) / ROW) + AHEAD) : list.length;

  useEffect(() => {
    const place = chosen === null || chosen === undefined ? -1 : list.indexOf(chosen);
    const element = scroller.current;
    if (place < 0 || !element || element.scrollHeight <= element.clientHeight) return;
    const at = place * ROW;
    if (at < element.scrollTop || at > element.scrollTop + element.clientHeight - 3 * ROW) {
      element.scrollTop = at - element.clientHeight / 2;
    }
  }, [chosen, list]);

  const sort = (c: Column) => {
    if (order.column !== c) setOrder({ column: c, down: !!c.value });
    else if (order.down === !!c.value) setOrder({ column: c, down: !order.down });
    else setOrder({ column: null, down: false });
  };
  const onKey = (event: KeyboardEvent) => {
    const now = chosen === null || chosen === undefined ? -1 : list.indexOf(chosen);
    const go = (to: number) => onChoose?.(list[Math.max(0, Math.min(list.length - 1, to))]);
    const count = columns.length;
    const keys: Record<string, () => void> = {
      ArrowDown: () => go(now + 1),
      ArrowUp: () => go(now - 1),
      Home: () => go(0),
      End: () => go(list.length - 1),
      ArrowRight: () => setColumn((column + 1) % count),
      ArrowLeft: () => setColumn((column + count - 1) % count),
      Enter: () => now >= 0 && explain(columns[column], list[now]),
      Escape: () => onChoose?.(null),
    };
    if (event.target !== scroller.current || !onChoose || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
  const spacer = (count: number) => count > 0 && <tr aria-hidden="true" class="gap" style={{ height: `${count * ROW}px` }}><td colSpan={columns.length} /></tr>;
  return (
    <div class="tabled" ref={outer}>
    <div
      class={`scroll${virtual || list.length > 20 ? " tall" : ""}`}
      ref={scroller}
      tabIndex={0}
      role="group"
      aria-label={onChoose ? `${label}. Arrow keys choose a row and a column, Enter explains a figure.` : label}
      onScroll={(event) => virtual && setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKey}
      onPointerLeave={() => onHover?.(null)}
    >
      <table aria-rowcount={list.length + 1} class={fixed ? "fixed" : ""} style={fixed ? { width: hidden ? "100%" : `${shownColumns.reduce((sum, c) => sum + c.width, 0)}ch` } : undefined}>
        {fixed && <colgroup>{shownColumns.map((c) => <col style={{ width: `${c.width}ch` }} />)}</colgroup>}
        <thead>
          <tr>
            {columns.map((c) => (
              <th
                scope="col"
                class={c.align}
                aria-sort={order.column === c ? (order.down ? "descending" : "ascending") : undefined}
              >
                {c.title && (
                  <button type="button" onClick={() => sort(c)}>
                    {c.title}
                    <span aria-hidden="true">{order.column === c ? (order.down ? " ▾" : " ▴") : ""}</span>
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {spacer(first)}
          {list.slice(first, last).map((row, i) => (
            <tr
              key={virtual ? i : row}
              aria-rowindex={first + i + 2}
              class={`${row === hover ? "hover" : ""}${row === chosen ? " chosen" : ""}`}
              onPointerEnter={() => onHover?.(row)}
              onClick={() => onChoose?.(row)}
            >
              {columns.map((c, at) => (
                <Cell rows={rows} column={c} row={row} on={row === chosen && at === column && !!onChoose} onExplain={explain} />
              ))}
            </tr>
          ))}
          {spacer(list.length - last)}
        </tbody>
      </table>
    </div>
    {(hidden > 0 || all) && (
      <button type="button" class="plain more" aria-pressed={all} onClick={() => setAll(!all)}>
        {all ? "fewer columns" : `${hidden} more column${hidden > 1 ? "s" : ""}`}
      </button>
    )}
    </div>
  );
}

interface CellProps {
  rows: Rows;
  column: Column;
  row: number;
  on: boolean;
  onExplain(column: Column, row: number): void;
}

/** Characters of a text that a narrow page cuts. */
const SHORT = 15;
/** Characters of a text that may take several lines. */
const LONG = 40;

function Cell({ rows, column, row, on, onExplain }: CellProps) {
  const text = rows.text(column, row);
  const style = column.styles ? rows.page.strings[column.styles[row]] : "";
  const css = `${column.align}${style ? ` s-${style}` : ""}${on ? " on" : ""}`;
  if (!column.value) return <td class={`${css}${text.length > LONG ? " long" : ""}`} title={text.length > SHORT ? text : undefined}>{text}</td>;
  return (
    <td class={css} onClick={() => onExplain(column, row)}>
      <span class="num">{text}</span>
    </td>
  );
}

function useExplainCell(rows: Rows): (column: Column, row: number) => void {
  const explain = useExplain();
  return (column, row) => {
    const term = rows.page.terms[column.key ?? ""] ?? {};
    const value = rows.value(column, row);
    const unit = term.unit && term.unit !== "1" ? ` ${term.unit}` : "";
    const details = (rows.table.details ?? []).map((d): [string, string] => [d.title, rows.detail(d, row)]);
    explain({
      title: `${column.title} of ${rows.text(rows.table.columns[0], row)}`,
      text: rows.text(column, row),
      rows: [
        ["value", value === null ? "unknown" : `${value.toLocaleString("en-US", { maximumSignificantDigits: 7 })}${unit}`],
        ["what it is", term.about],
        ...details,
        ["share of the time", rows.share(row) === null ? undefined : si(rows.share(row)! * 100, "%", 3)],
        ["about this table", details.length ? undefined : rows.table.note],
      ],
    });
  };
}
