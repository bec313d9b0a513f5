// Answers as they are asked for: the latest question wins, the short answer comes before the whole.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

import type { PageData, Roofline, View } from "../schema";
import type { Engine } from "./engine";
import type { Answer, Explorer, Extra, Request, State } from "./schema";
import { isSmall, Shelf } from "./shelf";
import { asked } from "./state";

export interface Shown {
  page: PageData;
  extra: Extra;
  /** A newer answer has been on its way for a while. */
  waiting: boolean;
  /** Asks what is likely to be asked next, while nothing else is. */
  prepare(states: State[]): void;
  /** Forgets all answers: files behind them may have changed. */
  forget(): void;
}

/** Rest of the hand after which the whole answer is asked for, in ms. */
const REST = 250;
/** Time without an answer after which the page says so, in ms. */
const PATIENCE = 400;

export function useAnswer(engine: Engine, explorer: Explorer, state: State, against: State | null, page: PageData): Shown {
  const [shown, setShown] = useState({ page, extra: explorer.first, waiting: false });
  const [shelf] = useState(() => new Shelf());
  const wanted = useRef<Request | null>(null);
  const ahead = useRef<Request[]>([]);
  const latest = useRef<Request | null>(null);
  const busy = useRef(false);
  const filling = useRef(false);
  const rest = useRef(0);
  const patience = useRef(0);
  const opened = useRef(true);

  const show = (request: Request, answer: Answer) => {
    clearTimeout(patience.current);
    setShown((old) => {
      const { page: made, ...extra } = answer;
      if (extra.error || !made) return { ...old, waiting: false, extra: { ...old.extra, error: extra.error } };
      // What there is to choose among is said with an analysis; other tabs offer the same.
      const { runtimes, precisions, changes, scan } = old.extra;
      const kept = { runtimes, precisions, ...(request.brief && { changes, scan: extra.place ? scan : null }) };
      const page = steady(request.brief ? keeping(made, old.page) : made, old.page);
      return { page, extra: { ...kept, ...extra, error: undefined }, waiting: false };
    });
  };

  /** One at a time: each takes much longer than a short one. */
  const whole = async (request: Request) => {
    if (filling.current) return;
    filling.current = true;
    const full = { ...request, brief: false };
    const answer = await engine.ask(full);
    filling.current = false;
    shelf.keep(full, answer);
    const last = latest.current!;
    if (last === request) show(full, answer);
    else if (!shelf.find(last)?.whole) wholeAfterRest(last);
  };
  const wholeAfterRest = (request: Request) => {
    clearTimeout(rest.current);
    rest.current = window.setTimeout(() => latest.current === request && whole(request), REST);
  };

  const pump = async () => {
    if (busy.current) return;
    busy.current = true;
    for (;;) {
      const request = wanted.current ?? ahead.current.shift();
      if (!request) break;
      const now = request === wanted.current;
      if (now) wanted.current = null;
      const known = shelf.find(request); // it may have come while another was on its way
      const brief = { ...request, brief: true };
      const answer = known?.answer ?? (await engine.ask(brief));
      if (!known) shelf.keep(brief, answer);
      const last = latest.current === request;
      // A newer question is on its way: what is answered meanwhile is shown, mistakes are not.
      if (now && (last || (wanted.current && !answer.error))) show(brief, answer);
      if (last && !answer.error) wholeAfterRest(request);
      if (!now && (answer.error || !isSmall(answer))) ahead.current = [];
    }
    busy.current = false;
  };

  const requestOf = (state: State): Request => ({
    ...state,
    given: asked(state, explorer),
    against: against ? asked(against, explorer) : undefined,
    against_changes: against?.changes,
    measured: state.verb === "analyze" ? state.measured : undefined,
  });

  // Before the frame, not after it: a kept answer is painted with the slider that asks for it.
  useLayoutEffect(() => {
    const request = requestOf(state);
    latest.current = request;
    if (opened.current) {
      opened.current = false;
      shelf.keep({ ...request, brief: true }, { ...explorer.first, page });
      wholeAfterRest(request);
      return;
    }
    clearTimeout(rest.current);
    clearTimeout(patience.current);
    const known = shelf.find(request);
    wanted.current = known ? null : request;
    if (known) {
      show({ ...request, brief: !known.whole }, known.answer);
      if (!known.whole) wholeAfterRest(request);
      return;
    }
    patience.current = window.setTimeout(() => setShown((old) => ({ ...old, waiting: true })), PATIENCE);
    void pump();
  }, [state, against]);

  const prepare = (states: State[]) => {
    ahead.current = states.map(requestOf);
    void pump();
  };
  return { ...shown, prepare, forget: () => shelf.clear() };
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
