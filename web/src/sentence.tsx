// A sentence whose numbers explain themselves: each belongs to one of the figures beside it.

import { useExplain, type Explanation } from "./explain";
import type { Figure } from "./schema";

/** A number with its unit: "2.797 ms", "358 images/s", "84.3%", "1.9×". */
const NUMBER = /(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?:[×%]|\s(?:\w+\/\w+|[µmnp]?s|[kMGTP]i?B|[mk]?[WJ]|[kMGTPE]?FLOP)(?!\w))/g;

const spaced = (text: string | undefined): string => (text ?? "").replace(/\s/g, " ");

/** The figure that a number of a sentence belongs to; null where none says it. */
function figureOf(number: string, sentence: string, figures: Figure[]): Figure | null {
  const within = (text: string | undefined) => {
    const at = spaced(text).indexOf(spaced(number));
    return at >= 0 && !/[\d.,]/.test(spaced(text)[at - 1] ?? "");
  };
  const named = (figure: Figure) => sentence.toLowerCase().startsWith(`${figure.label.toLowerCase()}:`);
  const bare = number.replace(/\s.*/, "");
  const plain = (figure: Figure) => bare.length > 2 && spaced(figure.text).split(" ")[0] === bare;
  return figures.find((f) => within(f.text)) ?? figures.find(plain) ?? figures.find((f) => within(f.note)) ?? figures.find(named) ?? null;
}

export function explanationOf(figure: Figure, number = figure.text): Explanation {
  const own = number === figure.text ? [] : [[figure.label, figure.text] as [string, string]];
  return {
    title: figure.label,
    text: number,
    rows: [...own, ["", figure.note], ["formula", figure.formula], ["source", figure.source], ["confidence", figure.confidence]],
  };
}

export function Sentence({ text, figures }: { text: string; figures: Figure[] }) {
  const explain = useExplain();
  const parts = [];
  let end = 0;
  for (const { 0: number, index } of text.matchAll(NUMBER)) {
    const figure = figureOf(number, text, figures);
    if (!figure) continue;
    parts.push(text.slice(end, index));
    parts.push(<button type="button" class="said" title="where this figure comes from" onClick={() => explain(explanationOf(figure, number))}>{number}</button>);
    end = index + number.length;
  }
  return <>{parts}{text.slice(end)}</>;
}
