// Horizontal bars from zero, with ranges; rows without a value are greyed and say why.

import { csvText, Download, fileNameOf } from "./download";
import { onAxis } from "./format";
import { Key } from "./pictures";
import type { Bars } from "./schema";

export function BarsChart({ chart }: { chart: Bars }) {
  const known = chart.rows.flatMap((row) => [...row.values, ...(row.ends ?? [])]).filter((v): v is number => v !== null && Number.isFinite(v));
  const longest = Math.max(...known, 1e-30);
  const ranged = chart.rows.some((r) => r.ends);
  const part = (v: number) => `${Math.max(0.3, Math.min(100, (v / longest) * 100))}%`;
  const several = chart.series.length > 1;
  const forms = several || ranged ? [...chart.series.map((name, i) => `${several ? (i ? "outline" : "full") : "bar"}: ${name}`), ...(ranged ? ["line: range"] : [])].join(", ") : "";
  return (
    <figure class="chart bars">
      <div class="bar">
        <h2>{chart.title}</h2>
        <Download name={fileNameOf(chart.title)} csv={() => csvOf(chart)} />
      </div>
      {chart.rows.map((row) => (
        <div class={`barrow${row.missing ? " missing" : ""}`}>
          <span class="name" title={row.name}>{row.name}</span>
          {!row.missing && <span class="track">
            {row.values.map((v, i) => v !== null && <span class={`rod ${i ? "outline" : ""} k-${row.color || "c5"}`} style={{ width: part(v) }} />)}
            {row.ends && <span class="range" style={{ left: part(row.ends[0]), width: `${((Math.min(row.ends[1], longest) - row.ends[0]) / longest) * 100}%` }} />}
          </span>}
          <span class="num">{row.missing || row.values.map((v) => (v === null ? "unknown" : onAxis(v, chart.unit))).join(" / ")}{row.note && <small class="soft"> {row.note}</small>}</span>
        </div>
      ))}
      <figcaption class="legend">
        {chart.legend.map((k) => <Key {...k} />)}
        {[forms, chart.about].filter(Boolean).map((text) => <span class="soft">{text}</span>)}
      </figcaption>
    </figure>
  );
}

function csvOf(chart: Bars): string {
  const rows = chart.rows.map((r) => [r.name, ...r.values, ...(r.ends ?? [null, null]), r.missing || r.note]);
  return csvText([["name", ...chart.series, "low", "high", "note"], ...rows]);
}
