// What charts draw on: a canvas for the screen and PNG, or SVG text for a file.

export interface Stroke {
  stroke?: string;
  width?: number;
  dash?: number[];
  fill?: string;
  alpha?: number;
}

export interface TextStyle {
  size: number;
  color: string;
  anchor?: "start" | "middle" | "end";
  /** Radians, about the given place. */
  turn?: number;
  bold?: boolean;
  halo?: string;
}

export interface Surface {
  path(points: [number, number][], style: Stroke, closed?: boolean): void;
  circle(x: number, y: number, r: number, style: Stroke): void;
  text(x: number, y: number, text: string, style: TextStyle): void;
  clip(x: number, y: number, w: number, h: number, draw: () => void): void;
  /** Many shapes of one look at once: x, y, radius of each. */
  shapes(name: string, places: [number, number, number][], style: Stroke): void;
}

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

export class CanvasSurface implements Surface {
  constructor(private g: CanvasRenderingContext2D) {}

  shapes(name: string, places: [number, number, number][], style: Stroke): void {
    const corners = SHAPES[name] ?? [];
    this.g.beginPath();
    for (const [x, y, r] of places) {
      if (!corners.length) {
        this.g.moveTo(x + r, y);
        this.g.arc(x, y, r, 0, 2 * Math.PI);
      } else {
        // Filling closes them; closePath takes longer the longer the whole path is.
        corners.forEach(([a, b], i) => (i ? this.g.lineTo(x + 1.15 * r * a, y + 1.15 * r * b) : this.g.moveTo(x + 1.15 * r * a, y + 1.15 * r * b)));
      }
    }
    this.finish(style);
  }

  private finish(style: Stroke): void {
    const g = this.g;
    g.globalAlpha = style.alpha ?? 1;
    if (style.fill) {
      g.fillStyle = style.fill;
      g.fill();
    }
    if (style.stroke) {
      g.strokeStyle = style.stroke;
      g.lineWidth = style.width ?? 1;
      g.setLineDash(style.dash ?? []);
      g.stroke();
    }
    g.globalAlpha = 1;
  }

  path(points: [number, number][], style: Stroke, closed = false): void {
    this.g.beginPath();
    points.forEach(([x, y], i) => (i ? this.g.lineTo(x, y) : this.g.moveTo(x, y)));
    if (closed) this.g.closePath();
    this.finish(style);
  }

  circle(x: number, y: number, r: number, style: Stroke): void {
    this.g.beginPath();
    this.g.arc(x, y, r, 0, 2 * Math.PI);
    this.finish(style);
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const g = this.g;
    g.save();
    g.translate(x, y);
    if (style.turn) g.rotate(style.turn);
    g.font = `${style.bold ? "600 " : ""}${style.size}px ${FONT}`;
    g.textAlign = style.anchor === "middle" ? "center" : (style.anchor ?? "start");
    if (style.halo) {
      g.strokeStyle = style.halo;
      g.lineWidth = 4;
      g.lineJoin = "round";
      g.setLineDash([]);
      g.strokeText(text, 0, 0);
    }
    g.fillStyle = style.color;
    g.fillText(text, 0, 0);
    g.restore();
  }

  clip(x: number, y: number, w: number, h: number, draw: () => void): void {
    this.g.save();
    this.g.beginPath();
    this.g.rect(x, y, w, h);
    this.g.clip();
    draw();
    this.g.restore();
  }
}

const escape = (text: string) =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);
const n = (value: number) => value.toFixed(1);

export class SvgSurface implements Surface {
  private parts: string[] = [];
  private clips = 0;

  private style(s: Stroke): string {
    const dash = s.dash?.length ? ` stroke-dasharray="${s.dash.join(" ")}"` : "";
    const stroke = s.stroke ? ` stroke="${s.stroke}" stroke-width="${s.width ?? 1}"${dash}` : "";
    const alpha = s.alpha !== undefined ? ` opacity="${s.alpha}"` : "";
    return ` fill="${s.fill ?? "none"}"${stroke}${alpha}`;
  }

  path(points: [number, number][], style: Stroke, closed = false): void {
    const d = points.map(([x, y], i) => `${i ? "L" : "M"}${n(x)} ${n(y)}`).join("");
    this.parts.push(`<path d="${d}${closed ? "Z" : ""}"${this.style(style)}/>`);
  }

  circle(x: number, y: number, r: number, style: Stroke): void {
    this.parts.push(`<circle cx="${n(x)}" cy="${n(y)}" r="${n(r)}"${this.style(style)}/>`);
  }

  text(x: number, y: number, text: string, s: TextStyle): void {
    const turn = s.turn ? ` rotate(${n((s.turn * 180) / Math.PI)})` : "";
    const halo = s.halo ? ` paint-order="stroke" stroke="${s.halo}" stroke-width="4" stroke-linejoin="round"` : "";
    const weight = s.bold ? ' font-weight="600"' : "";
    this.parts.push(
      `<text transform="translate(${n(x)} ${n(y)})${turn}" font-size="${s.size}" fill="${s.color}" ` +
        `text-anchor="${s.anchor ?? "start"}"${weight}${halo}>${escape(text)}</text>`,
    );
  }

  clip(x: number, y: number, w: number, h: number, draw: () => void): void {
    const id = `c${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  shapes(name: string, places: [number, number, number][], style: Stroke): void {
    for (const [x, y, r] of places) shape(this, name, x, y, r, style);
  }

  file(width: number, height: number, ground: string): string {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ` +
      `font-family="${escape(FONT)}"><rect width="${width}" height="${height}" fill="${ground}"/>${this.parts.join("")}</svg>\n`
    );
  }
}

const polygon = (corners: number, turn = 0, inner = 0): [number, number][] => {
  const steps = corners * (inner ? 2 : 1);
  return Array.from({ length: steps }, (_, i) => {
    const angle = (2 * Math.PI * i) / steps + turn;
    const r = inner && i % 2 ? inner : 1;
    return [r * Math.sin(angle), -r * Math.cos(angle)];
  });
};

/** Shape to corners; a circle has none. As `gambrel.report.picture.SHAPES`. */
export const SHAPES: Record<string, [number, number][]> = {
  circle: [],
  square: polygon(4, Math.PI / 4),
  diamond: polygon(4),
  "triangle-up": polygon(3),
  "triangle-down": polygon(3, Math.PI),
  cross: polygon(4, 0, 0.4),
  x: polygon(4, Math.PI / 4, 0.4),
  pentagon: polygon(5),
  hexagon: polygon(6),
  star: polygon(5, 0, 0.42),
};

export function shape(on: Surface, name: string, x: number, y: number, r: number, style: Stroke): void {
  const corners = SHAPES[name] ?? [];
  if (!corners.length) on.circle(x, y, r, style);
  else on.path(corners.map(([a, b]) => [x + 1.15 * r * a, y + 1.15 * r * b]), style, true);
}
