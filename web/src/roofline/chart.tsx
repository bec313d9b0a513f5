// The roofline on a canvas: point at dots, choose them, zoom, move; by mouse, touch and keyboard.

import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { Download } from "../download";
import { percent, plain, si, whole } from "../format";
import type { PageData, Roofline } from "../schema";
import { CanvasSurface, SHAPES, SvgSurface } from "../surface";
import { useTheme } from "../theme";
import { useWidth } from "../width";
import { endsOf, joined, marksOf, sized, type Ends, type Mark } from "./marks";
import { paint } from "./paint";
import { sceneOf, type Scene } from "./scene";

export interface Linked {
  /** Rows that the filters show; null for all. */
  shown: Set<number> | null;
  hover: number | null;
  chosen: number | null;
  onHover(row: number | null): void;
  onChoose(row: number | null): void;
  share(row: number): number | null;
}

interface Props extends Linked {
  chart: Roofline;
  page: PageData;
}

/** What the axes belong to on a page that changes; they stay while it does. */
export const Still = createContext("");

const REACH = 14;

export function RooflineChart(props: Props) {
  const { chart, page, hover, chosen, shown } = props;
  const theme = useTheme();
  const still = useContext(Still);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  // Reading the height of the window lays the page out, so it is read when the width changes.
  const height = useMemo(() => Math.round(Math.max(300, Math.min(width * 0.62, 560, Math.max(360, still ? innerHeight * 0.5 : Infinity)))), [width, !still]);
  const marks = useMemo(() => sized(marksOf(chart, page), props.share), [chart, page, props.share]);
  const whole_ = useMemo(() => endsOf(chart, marks), [chart, marks]);
  const [ends, setEnds] = useEnds(whole_, still);
  const [levels, setLevels] = useState(false);
  const [tip, setTip] = useState<{ mark: Mark; x: number; y: number } | null>(null);
  const visible = useMemo(() => (shown ? marks.filter((m) => m.row < 0 || shown.has(m.row)) : marks), [marks, shown]);
  const scene = useMemo(
    () => (width ? sceneOf(chart, visible, ends, width, height, props.share) : null),
    [chart, visible, ends, width, height, props.share],
  );
  const focus = { hover, chosen, levels };

  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || !scene) return;
    const ratio = Math.max(1, devicePixelRatio);
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (element.width !== w || element.height !== h) [element.width, element.height] = [w, h];
    const g = element.getContext("2d")!;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    paint(new CanvasSurface(g), chart, scene, theme, focus);
    // For tests and for curious readers: what stands where.
    (element as unknown as { scene: Scene }).scene = scene;
  }, [scene, theme, hover, chosen, levels]);

  const at = (event: { clientX: number; clientY: number }): [number, number] => {
    const r = canvas.current!.getBoundingClientRect();
    return [event.clientX - r.left, event.clientY - r.top];
  };
  const point = (x: number, y: number) => {
    const mark = scene && nearest(scene, x, y);
    setTip(mark ? { mark, x, y } : null);
    props.onHover(mark ? mark.row : null);
    return mark;
  };
  const zoom = (factor: number, x?: number, y?: number) => scene && setEnds(zoomed(scene, ends, factor, x, y));

  const drag = useRef<{ x: number; y: number; ends: Ends; moved: boolean } | null>(null);
  const onDown = (event: PointerEvent) => {
    if (event.pointerType === "touch") return;
    const [x, y] = at(event);
    drag.current = { x, y, ends, moved: false };
    canvas.current!.setPointerCapture?.(event.pointerId);
  };
  const onMove = (event: PointerEvent) => {
    const [x, y] = at(event);
    const d = drag.current;
    if (d && scene && (d.moved || Math.hypot(x - d.x, y - d.y) > 4)) {
      d.moved = true;
      setTip(null);
      setEnds(moved(scene, d.ends, x - d.x, y - d.y));
    } else if (!d) point(x, y);
  };
  const onUp = (event: PointerEvent) => {
    const d = drag.current;
    drag.current = null;
    if (d?.moved) return;
    const mark = point(...at(event));
    props.onChoose(mark && mark.row >= 0 ? (mark.row === chosen ? null : mark.row) : null);
  };
  useEffect(() => {
    const element = canvas.current;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.002), ...at(event));
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  });

  const onKey = (event: KeyboardEvent) => {
    const keys: Record<string, () => void> = {
      "+": () => zoom(0.6),
      "=": () => zoom(0.6),
      "-": () => zoom(1 / 0.6),
      "0": () => setEnds(whole_),
      Escape: () => {
        setTip(null);
        props.onHover(null);
        props.onChoose(null);
      },
      Enter: () => hover !== null && props.onChoose(hover),
      ArrowRight: () => step(1),
      ArrowLeft: () => step(-1),
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };
  const step = (by: number) => {
    const dots = scene?.dots.filter((d) => d.mark.row >= 0) ?? [];
    if (!dots.length) return;
    const now = dots.findIndex((d) => d.mark.row === hover);
    const next = dots[(now + by + dots.length) % dots.length] ?? dots[0];
    setTip({ mark: next.mark, x: next.x, y: next.y });
    props.onHover(next.mark.row);
  };

  const kinds = [...new Set(visible.filter((m) => m.row >= 0 && !m.margin).map((m) => m.kind))];
  const bounds = [...new Set(visible.filter((m) => m.row >= 0 && !m.margin).map((m) => m.bound))];
  const svg = () => {
    const surface = new SvgSurface();
    if (scene) paint(surface, chart, scene, theme, { hover: null, chosen: null, levels });
    return surface.file(width, height, theme.ground);
  };
  return (
    <figure class="chart roofline">
      <div class="bar">
        <span class="tools">
          <button type="button" aria-label="zoom in" title="zoom in (+)" onClick={() => zoom(0.6)}>+</button>
          <button type="button" aria-label="zoom out" title="zoom out (-)" onClick={() => zoom(1 / 0.6)}>−</button>
          <button type="button" title="whole chart (0)" onClick={() => setEnds(whole_)}>reset</button>
          {chart.levels && (
            <button type="button" aria-pressed={levels} title="each op at every memory level" onClick={() => setLevels(!levels)}>
              memory levels
            </button>
          )}
        </span>
        <Download name="roofline" svg={svg} canvas={() => canvas.current} />
      </div>
      <div class="plot" ref={box}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label={`Roofline: ${chart.title}. Arrow keys go from op to op, Enter chooses, + and - zoom.`}
          style={{ width: `${width}px`, height: `${height}px` }}
          onPointerDown={onDown}
          onPointerMove={onMove}
          onPointerUp={onUp}
          onPointerLeave={() => {
            setTip(null);
            props.onHover(null);
          }}
          onDblClick={() => setEnds(whole_)}
          onKeyDown={onKey}
        />
        {tip && <Tip {...tip} width={width} chart={chart} share={props.share(tip.mark.row)} />}
      </div>
      <p class="sr" aria-live="polite">{tip ? said(tip.mark, chart, props.share(tip.mark.row)).join("; ") : ""}</p>
      {levels && chart.levels ? <LevelLegend chart={chart} /> : <Legend chart={chart} kinds={kinds} bounds={bounds} marks={visible} />}
    </figure>
  );
}

/** The limits of the axes. While only sizes change they stay, so that dots are seen to move; a zoom stays as well. */
function useEnds(whole_: Ends, still: string): [Ends, (ends: Ends) => void] {
  const axes = useRef({ still, whole_, ends: whole_ });
  const [zoom, setZoom] = useState<{ ends: Ends; owner: unknown } | null>(null);
  const owner = still || whole_;
  const old = axes.current;
  if (old.whole_ !== whole_ || old.still !== still) {
    axes.current = { still, whole_, ends: still && old.still === still ? joined(old.ends, whole_) : whole_ };
  }
  const ends = zoom?.owner === owner ? zoom.ends : axes.current.ends;
  return [ends, (next) => setZoom(next === whole_ ? null : { ends: next, owner })];
}

function nearest(scene: Scene, x: number, y: number): Mark | null {
  let best: Mark | null = null;
  let least = REACH;
  for (const dot of scene.dots) {
    const distance = Math.hypot(dot.x - x, dot.y - y) - dot.r;
    if (distance < least) {
      least = distance;
      best = dot.mark;
    }
  }
  if (best) return best;
  const margin = scene.margins.find((m) => x >= m.box.x && x <= m.box.x + m.box.w && y >= m.box.y && y <= m.box.y + m.box.h);
  return margin ? margin.marks[0] : null;
}

function zoomed(scene: Scene, ends: Ends, factor: number, px?: number, py?: number): Ends {
  const f = scene.frame;
  const x = scene.x.invert(px ?? f.x + f.w / 2);
  const y = scene.y.invert(py ?? f.y + f.h / 2);
  const around = (at: number, [low, high]: [number, number]): [number, number] => [at * (low / at) ** factor, at * (high / at) ** factor];
  return { x: around(x, ends.x), y: around(y, ends.y) };
}

function moved(scene: Scene, ends: Ends, dx: number, dy: number): Ends {
  const shift = ([low, high]: [number, number], part: number): [number, number] => {
    const by = (high / low) ** part;
    return [low * by, high * by];
  };
  return { x: shift(ends.x, -dx / scene.frame.w), y: shift(ends.y, dy / scene.frame.h) };
}

/** What is said about a dot. */
export function said(mark: Mark, chart: Roofline, share: number | null): string[] {
  const [xUnit, unit] = [chart.x.unit, chart.y.unit];
  const lines = [mark.count > 1 ? `${mark.name} ×${whole(mark.count)}` : mark.name, `${mark.kind}, ${mark.bound === "unknown" ? "bound unknown" : `${mark.bound}-bound`}`];
  if (mark.x) lines.push(`${plain(mark.x)} ${xUnit}`);
  if (mark.y !== null) {
    const kind = mark.filled ? "measured" : chart.measured ? "expected, not measured" : mark.ghost === null ? "at the roofline" : "expected";
    lines.push(`${kind} ${si(mark.y, unit)}`);
  }
  const range = mark.low !== null && mark.high !== null ? `${si(mark.low, unit, 3)} to ${si(mark.high, unit, 3)}` : "";
  if (range && !mark.filled) lines.push(`range ${range}`);
  if (mark.ghost !== null) lines.push(mark.filled ? `expected ${si(mark.ghost, unit)}${range ? `, ${range}` : ""}` : `at the roofline ${si(mark.ghost, unit)}`);
  if (mark.roof && mark.y) lines.push(`${percent(mark.y / mark.roof)} of its roof, ${si(mark.roof, unit)}`);
  if (share !== null) lines.push(`${percent(share)} of the time`);
  if (mark.note) lines.push(mark.note);
  return lines;
}

function Tip({ mark, x, y, width, chart, share }: { mark: Mark; x: number; y: number; width: number; chart: Roofline; share: number | null }) {
  const side = x > width / 2 ? { right: `${width - x + 14}px` } : { left: `${x + 14}px` };
  const [first, ...rest] = said(mark, chart, share);
  return (
    <div class="tip" style={{ ...side, top: `${Math.max(0, y - 30)}px` }}>
      <strong>{first}</strong>
      {rest.map((line) => <div>{line}</div>)}
    </div>
  );
}

function Mini({ shape: name, color, hollow }: { shape: string; color: string; hollow?: boolean }) {
  return (
    <svg class={`mini k-${color}${hollow ? " hollow" : ""}`} viewBox="-8 -8 16 16" aria-hidden="true">
      <MiniShape name={name} />
    </svg>
  );
}

function MiniShape({ name }: { name: string }) {
  const corners = SHAPES[name] ?? [];
  if (!corners.length) return <circle r="5.5" />;
  return <polygon points={corners.map(([a, b]) => `${6.5 * a},${6.5 * b}`).join(" ")} />;
}

const MOST_KINDS = 10;

function Legend({ chart, kinds, bounds, marks }: { chart: Roofline; kinds: string[]; bounds: string[]; marks: Mark[] }) {
  const ghosts = marks.some((m) => m.ghost !== null);
  const shapes = Object.entries(chart.shapes).filter(([kind]) => kinds.includes(kind));
  return (
    <figcaption class="legend">
      {bounds.map((b) => <span><Mini shape="circle" color={b} />{b === "unknown" ? "bound unknown" : `${b}-bound`}</span>)}
      {shapes.slice(0, MOST_KINDS).map(([kind, shape]) => <span><Mini shape={shape} color="unknown" />{kind}</span>)}
      {shapes.length > MOST_KINDS && <span>{shapes.length - MOST_KINDS} more kinds</span>}
      {marks.some((m) => m.row < 0 && m.y) && <span><Mini shape="star" color="star" />the whole</span>}
      {ghosts && <span><Mini shape="circle" color="unknown" hollow />{chart.measured ? "expected" : "at the roofline"}</span>}
      {marks.length > 0 && <span class="soft">
        {chart.measured ? "Full dots: measured rate; the bar is the range that was expected. " : ghosts ? "Dots: expected rate, bar: its range, dotted: headroom to the roof. " : "Dots: rate at the roofline. "}
        Area: share of the time.
      </span>}
    </figcaption>
  );
}

function LevelLegend({ chart }: { chart: Roofline }) {
  return (
    <figcaption class="legend">
      {chart.levels!.names.map((name) => <span><Mini shape="circle" color={name} />at {name}</span>)}
      <span class="soft">Every op at the intensity of each memory level, at one rate: that of its slowest level or engine.</span>
    </figcaption>
  );
}
