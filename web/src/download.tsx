// Saves what is on the page as a file, and copies texts; nothing leaves the browser.

import { useState } from "preact/hooks";

export function save(name: string, content: BlobPart, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

interface Props {
  name: string;
  svg?: () => string;
  canvas?: () => HTMLCanvasElement | null;
  /** The same of a chart that is no canvas. */
  png?: () => Promise<Blob>;
  csv?: () => string;
}

/** Buttons that save a chart as SVG and PNG, or a table as CSV. */
export function Download({ name, svg, canvas, png: drawn, csv }: Props) {
  const png = async () => {
    const blob = drawn ? await drawn() : await blobOf(canvas?.() ?? null);
    if (blob) save(`${name}.png`, blob, "image/png");
  };
  return (
    <span class="tools">
      {svg && <button type="button" onClick={() => save(`${name}.svg`, svg(), "image/svg+xml")}>SVG</button>}
      {(canvas || drawn) && <button type="button" onClick={png}>PNG</button>}
      {csv && <button type="button" onClick={() => save(`${name}.csv`, csv(), "text/csv")}>CSV</button>}
    </span>
  );
}

const blobOf = (canvas: HTMLCanvasElement | null): Promise<Blob | null> =>
  new Promise((done) => (canvas ? canvas.toBlob(done, "image/png") : done(null)));

/** An SVG as pixels, twice as dense as it is wide. */
export async function pngOf(svg: string, width: number, height: number): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return (await blobOf(canvas))!;
}

/** A title as a name of a file. */
export const fileNameOf = (title: string): string => title.replace(/\W+/g, "-").replace(/^-|-$/g, "").toLowerCase().slice(0, 40) || "chart";

/** Rows as CSV (RFC 4180); text that a spreadsheet would run as a formula is preceded by an apostrophe. */
export function csvText(rows: (string | number | null)[][]): string {
  return `${rows.map((row) => row.map((cell) => (typeof cell === "string" ? quoted(cell) : String(cell ?? ""))).join(",")).join("\r\n")}\r\n`;
}

function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.]+$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function Copy({ label, text }: { label: string; text: string }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await copied(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return <button type="button" title={text} onClick={copy}>{done ? "copied" : label}</button>;
}

async function copied(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // file:// has no clipboard API in some browsers.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
