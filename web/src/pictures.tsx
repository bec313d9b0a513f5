// Every chart that is no roofline: curves, dots and arrows over two axes, or bars; drawn as SVG.

import { useMemo, useRef, useState } from "preact/hooks";

import { Download } from "./download";
import { onAxis } from "./format";
import { Room, widthOf, type Box } from "./roofline/room";
import { scale, ticks, type Scale } from "./scale";
import type { Axis, Bars, Curves, Limit } from "./schema";
import { SHAPES } from "./surface";
import { theme } from "./theme";
import { useWidth } from "./width";

const color = (key: number | string): string => `k-${typeof key === "number" ? `c${key % 6}` : key}`;

interface Placement {
  x: Scale;
  y: Scale;
  frame: Box;
}

const baseOf = (axis: Axis): number => (["count", "capacity"].includes(axis.unit) ? 2 : 10);

function endsOf(axis: Axis, values: number[]): [number, number] {
  if (axis.ends) return axis.ends;
  const known = values.filter((v) => Number.isFinite(v) && (axis.linear || v > 0));
  if (!known.length) return axis.linear ? [0, 1] : [1, 10];
  const [low, high] = known.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [known[0], known[0]]);
  if (axis.linear) return [Math.min(0, low), high * 1.08 || 1];
  const room = Math.max(1.15, (high / low) ** 0.06, high < low * 1.5 ? 2 : 1);
  return [low / room, high * room];
}

function placed(chart: Curves, width: number, height: number): Placement {
  const at = [...chart.curves.flatMap((c) => c.points), ...chart.dots.map((d) => d.at), ...chart.notes.map((n) => n.at)];
  if (chart.mark) at.push(chart.mark);
  const narrow = width < 480;
  const named = chart.curves.some((c) => c.name && c.style !== "area" && c.style !== "dots");
  const frame = { x: narrow ? 56 : 74, y: 12, w: 0, h: height - 12 - 44 };
  frame.w = width - frame.x - (named && !narrow ? 112 : 16);
  const xs = at.map((p) => p[0]);
  const ys = [...at.map((p) => p[1]), ...chart.levels.map((l) => l.value)];
  return {
    frame,
    x: scale(endsOf(chart.x, xs), [frame.x, frame.x + frame.w], !chart.x.linear),
    y: scale(endsOf(chart.y, ys), [frame.y + frame.h, frame.y], !chart.y.linear),
  };
}

export function CurvesChart({ chart, name }: { chart: Curves; name: string }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const svg = useRef<SVGSVGElement>(null);
  const [tip, setTip] = useState<{ lines: string[]; x: number; y: number } | null>(null);
  const [limits, setLimits] = useState<Limit[]>(chart.limits);
  const height = Math.round(Math.max(240, Math.min(width * 0.55, 420)));
  const place = useMemo(() => placed(chart, width || 600, height), [chart, width, height]);
  const labels = useMemo(() => notesOf(chart, place), [chart, place]);
  const { x, y, frame } = place;
  const point = (event: PointerEvent) => {
    const r = svg.current!.getBoundingClientRect();
    const [a, b] = [event.clientX - r.left, event.clientY - r.top];
    const lines = nearby(chart, place, a, b);
    setTip(lines ? { lines, x: a, y: b } : null);
  };
  const beyond = ([a, b]: [number, number]) => limits.some((l) => l.value !== null && (l.keep === "above" ? (l.axis === "x" ? a : b) < l.value : (l.axis === "x" ? a : b) > l.value));
  return (
    <figure class="chart">
      <div class="bar">
        <h2>{chart.title}</h2>
        <Download name={name} svg={() => fileOf(svg.current!)} />
      </div>
      <div class="plot" ref={box}>
        <svg ref={svg} class="pic" role="img" aria-label={`${chart.title}. ${chart.about}`} width={width} height={height} viewBox={`0 0 ${width || 1} ${height}`} onPointerMove={point} onPointerLeave={() => setTip(null)}>
          <Grid chart={chart} place={place} />
          {chart.curves.map((c) => <Curve curve={c} place={place} linear={chart.x.linear} beyond={beyond} />)}
          {chart.levels.map((l) => (
            <g>
              <line class="r" x1={frame.x} x2={frame.x + frame.w} y1={y(l.value)} y2={y(l.value)} />
              <text class="h v" x={frame.x + 8} y={y(l.value) - 5}>{`${l.name} ${onAxis(l.value, chart.y.unit)}`}</text>
            </g>
          ))}
          {chart.arrows.map((a) => <Arrow from={[x(a.start[0]), y(a.start[1])]} to={[x(a.end[0]), y(a.end[1])]} css={color(a.color)} />)}
          {chart.dots.map((d) => <Shape name={d.shape} x={x(d.at[0])} y={y(d.at[1])} r={3 + 7 * d.size} css={`${d.hollow ? "o" : "p"} ${color(d.color)}${beyond(d.at) ? " beyond" : ""}`} />)}
          {chart.mark && <Shape name="star" x={x(chart.mark[0])} y={y(chart.mark[1])} r={9} css="m" />}
          {labels.map((l) => <text class={l.faint ? "h s" : "h s v"} x={l.box.x + 2} y={l.box.y + 11}>{l.text}</text>)}
          {limits.map((l, i) => <LimitLine limit={l} place={place} chart={chart} onMove={(value) => setLimits(limits.map((o, j) => (j === i ? { ...o, value } : o)))} />)}
        </svg>
        {tip && <div class="tip" style={{ ...(tip.x > width / 2 ? { right: `${width - tip.x + 14}px` } : { left: `${tip.x + 14}px` }), top: `${Math.max(0, tip.y - 30)}px` }}>{tip.lines.map((line, i) => (i ? <div>{line}</div> : <strong>{line}</strong>))}</div>}
      </div>
      <figcaption class="legend">
        {chart.legend.filter((k) => k.text).map((k) => <Key {...k} />)}
        {!chart.legend.length && chart.curves.filter((c) => c.name).map((c) => <Key text={c.name} shape="circle" color={c.color} hollow={false} />)}
        {chart.about && <span class="soft">{chart.about}</span>}
      </figcaption>
      {limits.length > 0 && <Limits limits={limits} chart={chart} inside={chart.dots.concat(dotsOf(chart)).filter((d) => !beyond(d.at)).length} onChange={setLimits} />}
    </figure>
  );
}

/** Points of curves without a line count as dots. */
const dotsOf = (chart: Curves): Curves["dots"] =>
  chart.curves.filter((c) => c.style === "dots").flatMap((c) => c.points.map((at) => ({ at, shape: "circle", color: c.color, size: 0, hollow: false, group: c.name, about: [c.name] })));

function Grid({ chart, place: { x, y, frame: f } }: { chart: Curves; place: Placement }) {
  const bottom = f.y + f.h;
  return (
    <g>
      <rect class="f" x={f.x} y={f.y} width={Math.max(0, f.w)} height={f.h} />
      {ticks([x.low, x.high], f.w / 76, x.log, baseOf(chart.x)).map((v) => (
        <g>
          <line class="g" x1={x(v)} x2={x(v)} y1={f.y} y2={bottom} />
          <text x={x(v)} y={bottom + 16} text-anchor="middle">{onAxis(v, chart.x.unit)}</text>
        </g>
      ))}
      {ticks([y.low, y.high], f.h / 36, y.log, baseOf(chart.y)).map((v) => (
        <g>
          <line class="g" x1={f.x} x2={f.x + f.w} y1={y(v)} y2={y(v)} />
          <text x={f.x - 6} y={y(v) + 4} text-anchor="end">{onAxis(v, chart.y.unit)}</text>
        </g>
      ))}
      <text x={f.x + f.w / 2} y={bottom + 36} text-anchor="middle">{chart.x.title}</text>
      <text transform={`translate(12 ${f.y + f.h / 2}) rotate(-90)`} text-anchor="middle">{chart.y.title}</text>
    </g>
  );
}

function Curve({ curve, place: { x, y, frame }, linear, beyond }: { curve: Curves["curves"][number]; place: Placement; linear: boolean; beyond(at: [number, number]): boolean }) {
  const points = curve.points.filter((p) => linear || Math.min(...p) > 0);
  const css = color(curve.color);
  if (curve.style === "dots") {
    return <g>{points.map((p) => <circle class={`p ${css}${beyond(p) ? " beyond" : ""}`} cx={x(p[0])} cy={y(p[1])} r={3.5} />)}</g>;
  }
  const d = points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
  if (curve.style === "area") return <path class={`b ${css}`} d={`${d}Z`} />;
  const look = { dashed: " d", faint: " w" }[curve.style as string] ?? "";
  const last = points[points.length - 1];
  const wide = frame.x + frame.w;
  return (
    <g>
      <path class={`l ${css}${look}`} d={d} />
      {curve.name && last && x(last[0]) > wide - 40 && <text class={`n ${css} s`} x={wide + 6} y={y(last[1]) + 4}>{curve.name.slice(0, 18)}</text>}
    </g>
  );
}

/** Texts at places, each where it hides no dot; those without room are left to the pointer. */
function notesOf(chart: Curves, place: Placement): { text: string; box: Box; faint: boolean }[] {
  const { x, y, frame } = place;
  const room = new Room(frame);
  for (const d of chart.dots) room.takeDot(x(d.at[0]), y(d.at[1]), 4 + 7 * d.size);
  if (chart.mark) room.takeDot(x(chart.mark[0]), y(chart.mark[1]), 9);
  const made = [];
  for (const note of chart.notes) {
    const w = widthOf(note.text, 11);
    const [a, b] = [x(note.at[0]), y(note.at[1])];
    const left = { x: a - w - 8, y: b - 7, w, h: 14 };
    const right = { x: a + 8, y: b - 7, w, h: 14 };
    const boxes = [note.side === "left" ? left : right, note.side === "left" ? right : left];
    for (const up of [-18, 10, -34, 26]) boxes.push({ x: a - w / 2, y: b + up, w, h: 14 }, { x: a + 8, y: b + up, w, h: 14 }, { x: a - w - 8, y: b + up, w, h: 14 });
    const box = room.place(note.text, boxes);
    if (box) made.push({ text: note.text, box, faint: note.faint });
  }
  return made;
}

function nearby(chart: Curves, { x, y, frame }: Placement, a: number, b: number): string[] | null {
  let lines: string[] | null = null;
  let least = 16;
  for (const d of [...chart.dots, ...dotsOf(chart)]) {
    const distance = Math.hypot(x(d.at[0]) - a, y(d.at[1]) - b);
    if (distance < least) {
      least = distance;
      const own = d.about.length ? d.about : [d.group];
      lines = d.about.length > 1 ? own : [...own, ...values(chart, d.at)];
    }
  }
  if (lines || a < frame.x || a > frame.x + frame.w) return lines;
  const stacked = chart.curves.filter((c) => c.style === "area");
  for (const c of chart.curves.filter((c) => c.style === "solid" || c.style === "dashed")) {
    for (const p of c.points) {
      const distance = Math.hypot(x(p[0]) - a, y(p[1]) - b);
      if (distance < least) {
        least = distance;
        lines = [c.name || c.about || chart.title, ...values(chart, p)];
      }
    }
  }
  return lines ?? (stacked.length ? null : lines);
}

const values = (chart: Curves, at: [number, number]): string[] => [
  `${chart.x.title}: ${onAxis(at[0], chart.x.unit)}`,
  `${chart.y.title}: ${onAxis(at[1], chart.y.unit)}`,
];

function LimitLine({ limit, place: { x, y, frame: f }, chart, onMove }: { limit: Limit; place: Placement; chart: Curves; onMove(value: number): void }) {
  const on = limit.axis === "x" ? x : y;
  const value = limit.value ?? (limit.keep === "above" ? on.low : on.high);
  const at = Math.max(limit.axis === "x" ? f.x : f.y, Math.min(limit.axis === "x" ? f.x + f.w : f.y + f.h, on(value)));
  const unit = limit.axis === "x" ? chart.x.unit : chart.y.unit;
  const drag = (event: PointerEvent) => {
    if (!(event.buttons & 1)) return;
    const r = (event.currentTarget as SVGElement).ownerSVGElement!.getBoundingClientRect();
    const pixel = limit.axis === "x" ? event.clientX - r.left : event.clientY - r.top;
    onMove(Math.max(on.low, Math.min(on.high, on.invert(pixel))));
  };
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1.05, ArrowUp: 1.05, ArrowLeft: 1 / 1.05, ArrowDown: 1 / 1.05 }[event.key];
    if (!by) return;
    event.preventDefault();
    onMove(Math.max(on.low, Math.min(on.high, value * by)));
  };
  const line = limit.axis === "x" ? { x1: at, x2: at, y1: f.y, y2: f.y + f.h } : { x1: f.x, x2: f.x + f.w, y1: at, y2: at };
  return (
    <g class={`limit ${limit.axis}`} tabIndex={0} role="slider" aria-label={limit.name} aria-valuenow={value} aria-valuetext={onAxis(value, unit)} aria-valuemin={on.low} aria-valuemax={on.high} onKeyDown={onKey} onPointerDown={(e) => e.currentTarget.setPointerCapture?.(e.pointerId)} onPointerMove={drag}>
      <line class="grip" {...line} />
      <line class="edge" {...line} />
    </g>
  );
}

function Limits({ limits, chart, inside, onChange }: { limits: Limit[]; chart: Curves; inside: number; onChange(limits: Limit[]): void }) {
  return (
    <p class="soft">
      {limits.map((l, i) => (
        <label>
          {l.name}{" "}
          <input type="number" step="any" value={l.value === null ? "" : Number(l.value.toPrecision(3))} placeholder="none" aria-label={`${l.name} limit`} onChange={(e) => onChange(limits.map((o, j) => (j === i ? { ...o, value: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) } : o)))} />{" "}
          {(l.axis === "x" ? chart.x : chart.y).unit}{" "}
        </label>
      ))}
      <output>{inside} points meet {limits.length === 1 ? "it" : "them"}.</output> Drag the lines, or use the arrow keys.
    </p>
  );
}

function Arrow({ from: [a, b], to: [c, d], css }: { from: [number, number]; to: [number, number]; css: string }) {
  const angle = Math.atan2(d - b, c - a);
  const tip = (t: number) => `${c - 7 * Math.cos(angle + t)} ${d - 7 * Math.sin(angle + t)}`;
  return (
    <g>
      <path class={`o ${css}`} d={`M${a} ${b}L${c} ${d}M${tip(0.4)}L${c} ${d}L${tip(-0.4)}`} />
      <circle class={`o ${css}`} cx={a} cy={b} r={3.5} />
    </g>
  );
}

function Shape({ name, x, y, r, css }: { name: string; x: number; y: number; r: number; css: string }) {
  const corners = SHAPES[name] ?? [];
  if (!corners.length) return <circle class={css} cx={x} cy={y} r={r} />;
  return <polygon class={css} points={corners.map(([a, b]) => `${(x + r * a).toFixed(1)},${(y + r * b).toFixed(1)}`).join(" ")} />;
}

function Key({ text, shape, color: shade, hollow }: { text: string; shape: string; color: number | string; hollow: boolean }) {
  return (
    <span>
      <svg class="mini pic" viewBox="-8 -8 16 16" aria-hidden="true">
        <Shape name={shape} x={0} y={0} r={6} css={`${shade === "star" ? "m" : hollow ? "o" : "p"} ${color(shade)}`} />
      </svg>
      {text}
    </span>
  );
}

/** The drawing as a file: what its classes mean is written into each element. */
function fileOf(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "opacity", "paint-order"]) {
      to[i].setAttribute(name, style.getPropertyValue(name));
    }
    to[i].removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "system-ui, sans-serif");
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", theme().ground);
  copy.prepend(ground);
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

export function BarsChart({ chart }: { chart: Bars }) {
  const known = chart.rows.flatMap((row) => [...row.values, ...(row.ends ?? [])]).filter((v): v is number => v !== null && Number.isFinite(v));
  const longest = Math.max(...known, 1e-30);
  const part = (v: number) => `${Math.max(0.3, Math.min(100, (v / longest) * 100))}%`;
  const forms = chart.series.map((name, i) => (chart.series.length > 1 ? `${i ? "outline" : "full"}: ${name}` : name)).join(", ");
  return (
    <figure class="chart bars">
      <h2>{chart.title}</h2>
      <p class="soft">{forms}{chart.rows.some((r) => r.ends) ? "; line: its range" : ""}</p>
      {chart.rows.map((row) => (
        <div class={`barrow${row.missing ? " missing" : ""}`}>
          <span class="name" title={row.name}>{row.name}</span>
          <span class="track">
            {row.values.map((v, i) => v !== null && <span class={`rod ${i ? "outline" : ""} k-${row.color || "c5"}`} style={{ width: part(v) }} />)}
            {row.ends && <span class="range" style={{ left: part(row.ends[0]), width: `${((Math.min(row.ends[1], longest) - row.ends[0]) / longest) * 100}%` }} />}
          </span>
          <span class="num">{row.missing || row.values.map((v) => (v === null ? "unknown" : onAxis(v, chart.unit))).join(" / ")}{row.note && <small class="soft"> {row.note}</small>}</span>
        </div>
      ))}
      {chart.about && <figcaption class="soft">{chart.about}</figcaption>}
    </figure>
  );
}
