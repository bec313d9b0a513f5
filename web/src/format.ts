// Numbers as gambrel writes them (gambrel.units).

const LARGE: [number, string][] = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SMALL: [number, string][] = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
const BINARY: [number, string][] = [[2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"]];

/** Significant digits without trailing zeros, as Python's "g". */
export function plain(value: number, digits = 4): string {
  const text = value.toPrecision(digits);
  if (text.includes("e")) return Math.abs(value) >= 1 ? String(Math.round(Number(text))) : String(Number(text));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function si(value: number | null | undefined, unit: string, digits = 4): string {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return `0 ${unit}`.trim();
  const small = ["s", "W", "J", "FLOP/byte", ""].includes(unit);
  const steps = small ? [...LARGE, ...SMALL] : [...LARGE, SMALL[0]];
  const last = steps[steps.length - 1];
  const [scale, prefix] = steps.find(([s]) => Number((Math.abs(value) / s).toPrecision(digits)) >= 1) ?? last;
  return `${plain(value / scale, digits)} ${prefix}${unit}`.trim();
}

export function capacity(value: number, digits = 3): string {
  const [scale, prefix] = BINARY.find(([s]) => Math.abs(value) >= s) ?? [1, ""];
  return `${plain(value / scale, digits)} ${prefix}B`;
}

export const percent = (value: number): string => `${(value * 100).toFixed(1)}%`;
export const whole = (value: number): string => Math.round(value).toLocaleString("en-US");

/** A number of an axis, by its unit. */
export function onAxis(value: number, unit: string): string {
  if (unit === "capacity") return capacity(value);
  if (unit === "count") {
    if (value < 1e4) return value >= 1 ? whole(value) : plain(value, 3);
    return value % 1024 === 0 ? `${whole(value / 1024)}k` : si(value, "", 3);
  }
  if (unit === "FLOP/byte" || unit === "token/s") return plain(value, 3);
  if (unit === "%") return `${plain(value, 3)} %`;
  if (!unit && Math.abs(value) >= 1e-3 && Math.abs(value) < 1) return plain(value, 3);
  return si(value, unit, 3);
}
