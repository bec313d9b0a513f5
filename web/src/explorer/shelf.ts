// Answers kept by their question: a slider that comes back, or comes near, paints at once.

import type { Answer, Request } from "./schema";

/** Rows of all kept answers together, and of one that is asked ahead. */
const MOST_ROWS = 100_000;
const FEW_ROWS = 2000;

export class Shelf {
  private readonly kept = new Map<string, { answer: Answer; whole: boolean; rows: number }>();
  private rows = 0;

  /** The answer to a question, the whole one where that is known; undefined where neither is. */
  find(request: Request): { answer: Answer; whole: boolean } | undefined {
    const key = keyOf(request);
    const known = this.kept.get(key);
    if (!known) return undefined;
    this.kept.delete(key); // the last used is the last to go
    this.kept.set(key, known);
    return known;
  }

  keep(request: Request, answer: Answer): void {
    const key = keyOf(request);
    const old = this.kept.get(key);
    if (answer.error || !answer.page || (old?.whole && request.brief)) return;
    if (old) this.drop(key);
    const rows = rowsOf(answer);
    this.kept.set(key, { answer, whole: !request.brief, rows });
    this.rows += rows;
    for (const oldest of this.kept.keys()) {
      if (this.rows <= MOST_ROWS || oldest === key) break;
      this.drop(oldest);
    }
  }

  private drop(key: string): void {
    this.rows -= this.kept.get(key)?.rows ?? 0;
    this.kept.delete(key);
  }

  clear(): void {
    this.kept.clear();
    this.rows = 0;
  }
}

/** The question itself; a short and a whole answer answer the same one. */
function keyOf({ verb, given, changes, against, against_changes, measured }: Request): string {
  const sorted = (fields?: object) => fields && Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([verb, sorted(given), changes, sorted(against), against_changes, measured]);
}

function rowsOf({ page }: Answer): number {
  const blocks = page?.views.flatMap((v) => v.sections).flatMap((s) => s.blocks) ?? [];
  return blocks.reduce((sum, block) => sum + (block.kind === "table" ? block.rows : 0), 1);
}

/** Whether answers of this size are asked ahead. */
export const isSmall = (answer: Answer): boolean => rowsOf(answer) <= FEW_ROWS;
