// An axis from values to pixels.

export interface Scale {
  (value: number): number;
  invert(pixel: number): number;
  low: number;
  high: number;
  log: boolean;
}

export function scale(ends: [number, number], pixels: [number, number], log: boolean): Scale {
  const to = log ? Math.log : (v: number) => v;
  const from = log ? Math.exp : (v: number) => v;
  const [a, b] = [to(ends[0]), to(ends[1])];
  const at = ((value: number) => pixels[0] + ((to(value) - a) / (b - a)) * (pixels[1] - pixels[0])) as Scale;
  at.invert = (pixel) => from(a + ((pixel - pixels[0]) / (pixels[1] - pixels[0])) * (b - a));
  [at.low, at.high] = ends;
  at.log = log;
  return at;
}

/** Round values between the ends, at most about `most`; powers of `base` on a logarithmic axis that has some. */
export function ticks(ends: [number, number], most: number, log: boolean, base = 10): number[] {
  const [low, high] = ends;
  if (!log) return linearTicks(low, high, most, base);
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  let found = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => base ** (first + i));
  if (found.length < 3 && base === 10) {
    found = [];
    for (let power = first - 1; power <= last; power++) {
      for (const step of [1, 2, 5]) found.push(step * 10 ** power);
    }
    found = found.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  }
  if (found.length < 3) return linearTicks(low, high, Math.max(3, most), base).filter((v) => v > 0);
  const step = Math.max(1, Math.ceil(found.length / Math.max(1, most)));
  return found.filter((_, i) => i % step === 0);
}

/** Place and anchor of a label below an axis: in the middle, unless it would cross the right edge. */
export function below(at: number, label: string, right: number): { x: number; anchor: "middle" | "end" } {
  return at + (label.length * LETTER) / 2 > right ? { x: right, anchor: "end" } : { x: at, anchor: "middle" };
}

/** Width of a letter of 11 px on average. */
const LETTER = 6.5;

function linearTicks(low: number, high: number, most: number, base: number): number[] {
  const raw = (high - low) / Math.max(1, most) || 1;
  const power = base ** Math.floor(Math.log(raw) / Math.log(base) + 1e-9);
  const step = power * ((base === 2 ? [1, 2] : [1, 2, 5, 10]).find((m) => m * power >= raw * 0.999) ?? base);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high * (1 + 1e-9); v += step) found.push(v);
  return found;
}
