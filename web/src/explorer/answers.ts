// Answers as they are asked for: the latest question wins, the short answer comes before the whole.

import { useEffect, useRef, useState } from "preact/hooks";

import type { PageData, Roofline, View } from "../schema";
import type { Engine } from "./engine";
import type { Explorer, Extra, Request, State } from "./schema";
import { asked } from "./state";

export interface Shown {
  page: PageData;
  extra: Extra;
  /** A newer answer is on its way. */
  waiting: boolean;
}

/** Rest of the hand after which the whole answer is asked for, in ms. */
const REST = 250;

export function useAnswer(engine: Engine, explorer: Explorer, state: State, against: State | null, page: PageData): Shown {
  const [shown, setShown] = useState<Shown>({ page, extra: explorer.first, waiting: false });
  const wanted = useRef<Request | null>(null);
  const busy = useRef(false);
  const rest = useRef(0);
  const opened = useRef(true);

  const show = (request: Request, answer: Extra & { page?: PageData }) =>
    setShown((old) => {
      const { page: made, ...extra } = answer;
      if (extra.error || !made) return { ...old, waiting: false, extra: { ...old.extra, error: extra.error } };
      const kept = request.brief ? { changes: old.extra.changes, scan: extra.place ? old.extra.scan : null } : {};
      const page = steady(request.brief ? keeping(made, old.page) : made, old.page);
      return { page, extra: { ...kept, ...extra, error: undefined }, waiting: false };
    });

  const whole = async (request: Request) => {
    const answer = await engine.ask({ ...request, brief: false });
    if (latest.current === request) show({ ...request, brief: false }, answer);
  };
  const latest = useRef<Request | null>(null);

  const pump = async () => {
    if (busy.current) return;
    busy.current = true;
    while (wanted.current) {
      const request = wanted.current;
      wanted.current = null;
      const answer = await engine.ask({ ...request, brief: true });
      if (!wanted.current || !answer.error) show({ ...request, brief: true }, answer);
      clearTimeout(rest.current);
      if (!answer.error) rest.current = window.setTimeout(() => latest.current === request && whole(request), REST);
    }
    busy.current = false;
  };

  useEffect(() => {
    const request: Request = { ...state, given: asked(state, explorer), against: against ? asked(against, explorer) : undefined };
    if (state.verb !== "analyze") request.measured = undefined;
    latest.current = request;
    if (opened.current) {
      opened.current = false;
      rest.current = window.setTimeout(() => whole(request), REST);
      return;
    }
    clearTimeout(rest.current);
    wanted.current = request;
    setShown((old) => ({ ...old, waiting: true }));
    void pump();
  }, [state, against]);
  return shown;
}

/** A short answer with the charts of the whole one before it, until that is there anew. */
function keeping(made: PageData, old: PageData): PageData {
  if (made.type !== old.type || made.views.length !== old.views.length) return made;
  const views = made.views.map((view, i) => ({ ...view, charts: [...view.charts, ...old.views[i].charts.slice(view.charts.length)] }));
  return { ...made, views };
}

/** Every kind of op keeps its shape while the page changes. */
function steady(made: PageData, old: PageData): PageData {
  const before = rooflineOf(old.views[0])?.shapes ?? {};
  const views = made.views.map((view) => {
    const chart = rooflineOf(view);
    if (!chart) return view;
    const kept = Object.keys(chart.shapes).filter((kind) => kind in before);
    const taken = new Set(kept.map((kind) => before[kind]));
    const free = Object.values(chart.shapes).filter((shape) => !taken.has(shape));
    const shapes = Object.fromEntries(Object.entries(chart.shapes).map(([kind, shape]) => [kind, before[kind] ?? (taken.has(shape) ? (free.shift() ?? shape) : shape)]));
    return { ...view, charts: [{ ...chart, shapes }, ...view.charts.slice(1)] };
  });
  return { ...made, views };
}

function rooflineOf(view?: View): Roofline | null {
  const first = view?.charts[0];
  return first?.kind === "roofline" ? first : null;
}
