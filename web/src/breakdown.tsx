// Where the time goes: by module as a treemap, by kind as bars; a click filters.

import { percent } from "./format";
import { squarified } from "./treemap";
import { useWidth } from "./width";

export interface Part {
  name: string;
  value: number;
  /** What bounds most of its time. */
  bound: string;
}

interface Props {
  parts: Part[];
  chosen: string;
  onChoose(name: string): void;
}

export function Treemap({ parts, chosen, onChoose }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const height = Math.max(150, Math.min(240, Math.round(width * 0.4)));
  const bound = new Map(parts.map((p) => [p.name, p.bound]));
  const tiles = width ? squarified(parts, width, height) : [];
  return (
    <div class="treemap" ref={box} style={{ height: `${height}px` }}>
      {tiles.map((t) => (
        <button
          type="button"
          class={`tile k-${bound.get(t.name)}${t.name === chosen ? " on" : ""}${t.w > 56 && t.h > 22 ? "" : " small"}`}
          aria-pressed={t.name === chosen}
          title={`${t.name}: ${percent(t.value)} of the time`}
          aria-label={`${t.name}: ${percent(t.value)} of the time`}
          style={{ left: `${t.x}px`, top: `${t.y}px`, width: `${Math.max(1, t.w - 1)}px`, height: `${Math.max(1, t.h - 1)}px` }}
          onClick={() => onChoose(t.name === chosen ? "" : t.name)}
        >
          {t.w > 56 && t.h > 22 && <span>{t.name}</span>}
          {t.w > 56 && t.h > 40 && <small>{percent(t.value)}</small>}
        </button>
      ))}
    </div>
  );
}

const MOST = 9;

export function Kinds({ parts, chosen, onChoose, outside }: Props & { outside: Part | null }) {
  const longest = Math.max(...parts.map((p) => p.value), outside?.value ?? 0, 1e-9);
  return (
    <div class="kinds">
      {outside && (
        <p>
          <span class="name">{outside.name}</span>
          <span class={`rod k-${outside.bound}`} style={{ width: `${(outside.value / longest) * 46}%` }} />
          <span class="num">{percent(outside.value)}</span>
        </p>
      )}
      {parts.slice(0, MOST).map((p) => (
        <button type="button" class={p.name === chosen ? "on" : ""} aria-pressed={p.name === chosen} onClick={() => onChoose(p.name === chosen ? "" : p.name)}>
          <span class="name">{p.name}</span>
          <span class={`rod k-${p.bound}`} style={{ width: `${(p.value / longest) * 46}%` }} />
          <span class="num">{percent(p.value)}</span>
        </button>
      ))}
      {parts.length > MOST && <p class="soft">{parts.length - MOST} more kinds: {percent(parts.slice(MOST).reduce((s, p) => s + p.value, 0))}</p>}
    </div>
  );
}
