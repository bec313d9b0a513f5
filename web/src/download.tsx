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
  csv?: () => string;
}

/** Buttons that save a chart as SVG and PNG, or a table as CSV. */
export function Download({ name, svg, canvas, csv }: Props) {
  const png = () => canvas?.()?.toBlob((blob) => blob && save(`${name}.png`, blob, "image/png"));
  return (
    <span class="tools">
      {svg && <button type="button" onClick={() => save(`${name}.svg`, svg(), "image/svg+xml")}>SVG</button>}
      {canvas && <button type="button" onClick={png}>PNG</button>}
      {csv && <button type="button" onClick={() => save(`${name}.csv`, csv(), "text/csv")}>CSV</button>}
    </span>
  );
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
