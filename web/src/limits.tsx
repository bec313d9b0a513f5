// Limits of a chart that a reader drags or types; what lies beyond them fades.

import { onAxis, whole } from "./format";
import type { Placement } from "./pictures";
import type { Curves, Limit } from "./schema";

export function LimitLine({ limit, place: { x, y, frame: f }, chart, onMove }: { limit: Limit; place: Placement; chart: Curves; onMove(value: number): void }) {
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

export function Limits({ limits, chart, inside, onChange }: { limits: Limit[]; chart: Curves; inside: number; onChange(limits: Limit[]): void }) {
  return (
    <p class="soft">
      {limits.map((l, i) => (
        <label>
          {l.name} {l.keep === "above" ? "at least" : "at most"}{" "}
          <input type="number" step="any" value={l.value === null ? "" : Number(l.value.toPrecision(3))} placeholder="none" aria-label={`${l.name} limit`} onChange={(e) => onChange(limits.map((o, j) => (j === i ? { ...o, value: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) } : o)))} />{" "}
          {(l.axis === "x" ? chart.x : chart.y).unit}
        </label>
      )).flatMap((label, i) => (i ? [", ", label] : [label]))}
      {": "}<output>{whole(inside)} points meet {limits.length === 1 ? "it" : "them"}.</output> Drag the lines, or use the arrow keys.
    </p>
  );
}
