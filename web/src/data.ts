// Where a page has its data from: inside the file, from the program that opened it, or from an address.

import type { PageData } from "./schema";

/** What a live page may set before the script runs. */
export interface Live {
  /** The data themselves. */
  data?: PageData;
  /** Where to fetch them. */
  url?: string;
  /** Headers of that request, e.g. a token. */
  headers?: Record<string, string>;
}

export async function load(): Promise<PageData> {
  const live = (window as { __GAMBREL__?: Live }).__GAMBREL__ ?? {};
  if (live.data) return live.data;
  const inside = document.getElementById("gambrel-data");
  if (inside) return embedded(inside);
  const url = live.url ?? document.documentElement.dataset.source;
  if (!url) throw new Error("this page has no data");
  const answer = await fetch(url, { headers: live.headers });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
  return answer.json();
}

async function embedded(element: HTMLElement): Promise<PageData> {
  const text = element.textContent ?? "";
  if (element.getAttribute("type") !== "application/zlib;base64") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}
