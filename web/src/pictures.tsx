// Curves, dots and arrows over two axes; drawn as SVG.

import { useMemo, useRef, useState } from "preact/hooks";

import { csvText, Download, fileNameOf, pngOf } from "./download";
import { onAxis } from "./format";
import { LimitLine, Limits } from "./limits";
import { Room, widthOf, type Box } from "./roofline/room";
import { below, scale, ticks, type Scale } from "./scale";
import type { Axis, Curves, Limit } from "./schema";
import { SHAPES } from "./surface";
import { theme } from "./theme";
import { useWidth } from "./width";

const color = (key: number | string): string => `k-${typeof key === "number" ? `c${key % 6}` : key}`;

export interface Placement {
  x: Scale;
  y: Scale;
  frame: Box;
  /** Characters of such a name. */
  most: number;
  /** There is room for names of curves at their right ends. */
  roomy: boolean;
}

/** Room at the left for numbers and a turned title; in less the title stands on top. */
const WIDE = 74;

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
  const names = chart.curves.filter((c) => c.style !== "area" && c.style !== "dots").map((c) => c.name.length);
  const named = names.some((length) => length > 0);
  const most = width < ROOMY ? SHORT : LONG;
  const top = narrow ? 20 : 12;
  const frame = { x: narrow ? 56 : WIDE, y: top, w: 0, h: height - top - 44 };
  const roomy = named && !narrow;
  frame.w = width - frame.x - (roomy ? Math.max(112, 16 + CHARACTER * Math.min(Math.max(...names), most)) : 16);
  const xs = at.map((p) => p[0]);
  const ys = [...at.map((p) => p[1]), ...chart.levels.map((l) => l.value)];
  return {
    frame,
    roomy,
    most,
    x: scale(endsOf(chart.x, xs), [frame.x, frame.x + frame.w], !chart.x.linear),
    y: scale(endsOf(chart.y, ys), [frame.y + frame.h, frame.y], !chart.y.linear),
  };
}

export function CurvesChart({ chart, tall }: { chart: Curves; tall?: number }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const svg = useRef<SVGSVGElement>(null);
  const [tip, setTip] = useState<{ lines: string[]; x: number; y: number } | null>(null);
  const [limits, setLimits] = useState<Limit[]>(chart.limits);
  const height = tall ?? Math.round(Math.max(240, Math.min(width * 0.55, 420)));
  const place = useMemo(() => placed(chart, width || 600, height), [chart, width, height]);
  const labels = useMemo(() => notesOf(chart, place), [chart, place]);
  const { x, y, frame } = place;
  const file = fileNameOf(chart.title);
  const named = place.roomy ? endsNamed(chart, place) : [];
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
        <Download name={file} svg={() => fileOf(svg.current!)} png={() => pngOf(fileOf(svg.current!), width, height)} csv={() => csvOf(chart)} />
      </div>
      {tall && <p>{chart.about}</p>}
      <div class="plot" ref={box}>
        <svg ref={svg} class="pic" role="img" aria-label={`${chart.title}. ${chart.about}`} width={width} height={height} viewBox={`0 0 ${width || 1} ${height}`} onPointerMove={point} onPointerLeave={() => setTip(null)}>
          <Grid chart={chart} place={place} />
          {chart.curves.map((c) => <Curve curve={c} place={place} linear={chart.x.linear} beyond={beyond} />)}
          {named.map((n) => <text class={`n ${n.css} s`} x={frame.x + frame.w + 6} y={n.y}>{n.text}</text>)}
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
        {chart.curves.filter((c) => c.name && (!chart.legend.length || !named.some((n) => n.text === shortened(c.name, place.most)))).filter((c) => !chart.legend.some((k) => k.text === c.name)).map((c) => <Key text={c.name} shape="circle" color={c.color} hollow={c.style === "dashed"} />)}
        {chart.about && !tall && <span class="soft">{chart.about}</span>}
      </figcaption>
      {limits.length > 0 && <Limits limits={limits} chart={chart} inside={chart.dots.concat(dotsOf(chart)).filter((d) => !beyond(d.at)).length} onChange={setLimits} />}
    </figure>
  );
}

/** Points of curves without a line count as dots. */
const dotsOf = (chart: Curves): Curves["dots"] =>
  chart.curves.filter((c) => c.style === "dots").flatMap((c) => c.points.map((at) => ({ at, shape: "circle", color: c.color, size: 0, hollow: false, group: c.name, about: [c.name] })));

/** Counts are whole: nothing stands at half an op. */
const countable = (axis: Axis, at: number[]): number[] => (axis.unit === "count" ? at.filter((v) => Number.isInteger(v)) : at);

function Grid({ chart, place: { x, y, frame: f } }: { chart: Curves; place: Placement }) {
  const bottom = f.y + f.h;
  return (
    <g>
      <rect class="f" x={f.x} y={f.y} width={Math.max(0, f.w)} height={f.h} />
      {countable(chart.x, ticks([x.low, x.high], f.w / 76, x.log, baseOf(chart.x))).map((v) => {
        const label = onAxis(v, chart.x.unit);
        const at = below(x(v), label, f.x + f.w + 15);
        return (
          <g>
            <line class="g" x1={x(v)} x2={x(v)} y1={f.y} y2={bottom} />
            <text x={at.x} y={bottom + 16} text-anchor={at.anchor}>{label}</text>
          </g>
        );
      })}
      {ticks([y.low, y.high], f.h / 36, y.log, baseOf(chart.y)).map((v) => (
        <g>
          <line class="g" x1={f.x} x2={f.x + f.w} y1={y(v)} y2={y(v)} />
          <text x={f.x - 6} y={y(v) + 4} text-anchor="end">{onAxis(v, chart.y.unit)}</text>
        </g>
      ))}
      <text x={f.x + f.w / 2} y={bottom + 36} text-anchor="middle">{chart.x.title}</text>
      {f.x < WIDE ? <text x={2} y={11}>{chart.y.title}</text> : <text transform={`translate(12 ${f.y + f.h / 2}) rotate(-90)`} text-anchor="middle">{chart.y.title}</text>}
    </g>
  );
}

function Curve({ curve, place: { x, y }, linear, beyond }: { curve: Curves["curves"][number]; place: Placement; linear: boolean; beyond(at: [number, number]): boolean }) {
  const points = curve.points.filter((p) => linear || Math.min(...p) > 0);
  const css = color(curve.color);
  if (curve.style === "dots") {
    return <g>{points.map((p) => <circle class={`p ${css}${beyond(p) ? " beyond" : ""}`} cx={x(p[0])} cy={y(p[1])} r={3.5} />)}</g>;
  }
  const d = points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
  if (curve.style === "area") return <path class={`b ${css}`} d={`${d}Z`} />;
  const look = { dashed: " d", faint: " w" }[curve.style as string] ?? "";
  return <path class={`l ${css}${look}`} d={d} />;
}

/** Characters of the name of a curve, on a chart of less and of more than this many pixels; pixels of one. */
const [SHORT, LONG, ROOMY, CHARACTER] = [18, 32, 700, 7];

const shortened = (name: string, most: number): string => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** Names of curves beside their right ends, pushed apart where they would cover each other. */
function endsNamed(chart: Curves, { x, y, frame, most }: Placement): { text: string; css: string; y: number }[] {
  const ends = chart.curves.flatMap((c) => {
    const last = c.points[c.points.length - 1];
    const drawn = c.name && c.style !== "area" && c.style !== "dots" && last && x(last[0]) > frame.x + frame.w - 64;
    return drawn ? [{ text: shortened(c.name, most), css: color(c.color), y: y(last[1]) + 4 }] : [];
  });
  ends.sort((a, b) => a.y - b.y);
  for (let i = 1; i < ends.length; i++) ends[i].y = Math.max(ends[i].y, ends[i - 1].y + 13);
  return ends;
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

export function Key({ text, shape, color: shade, hollow }: { text: string; shape: string; color: number | string; hollow: boolean }) {
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

/** Every point that is drawn, one a line. */
function csvOf(chart: Curves): string {
  const points = chart.curves.flatMap((c) => c.points.map(([a, b]) => [c.name || c.about || "curve", a, b, ""]));
  const dots = chart.dots.map((d) => [d.group || "dots", ...d.at, d.about.join("; ")]);
  return csvText([["series", chart.x.title, chart.y.title, "about"], ...points, ...dots]);
}
