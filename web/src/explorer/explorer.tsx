// The explorer: controls beside a page that follows them.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { App } from "../app";
import type { PageData } from "../schema";
import { useAnswer } from "./answers";
import { Controls, FileButton, fileName } from "./controls";
import { engineOf } from "./engine";
import type { Change, Explorer, State } from "./schema";
import { fromHash, toHash } from "./state";

/** Rest after which the address follows, in ms. */
const SETTLED = 150;

export function ExplorerApp({ page, explorer }: { page: PageData; explorer: Explorer }) {
  const engine = useMemo(() => engineOf(explorer), [explorer]);
  const [state, setState] = useState<State>(() => ({ ...explorer.state, changes: [] }));
  const [pinned, setPinned] = useState<State | null>(null);
  const [problem, setProblem] = useState("");
  const [status, setStatus] = useState("");
  const [over, setOver] = useState(false);
  const { page: shown, extra, waiting, prepare, forget } = useAnswer(engine, explorer, state, state.verb === "analyze" ? pinned : null, page);

  useEffect(() => engine.onStatus?.(setStatus), [engine]);
  useEffect(() => {
    const follow = () => {
      const next = fromHash(location.hash, explorer);
      if (next) setState(next);
    };
    if (location.hash && location.hash !== toHash(state)) follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const still = useRef(0);
  useEffect(() => {
    // Browsers refuse an address that changes with every step of a drag.
    clearTimeout(still.current);
    still.current = window.setTimeout(() => {
      const hash = toHash(state);
      if (location.hash !== hash) history.replaceState(null, "", hash);
    }, SETTLED);
    setProblem("");
  }, [state]);

  const onFiles = async (files: File[]) => {
    try {
      setProblem("");
      forget();
      const sent = await engine.send(files);
      const { measured, error } = await engine.ask({ verb: "file", given: { model: sent }, changes: [], brief: true });
      if (error) throw new Error(error);
      setState((old) => (measured ? { ...old, verb: "analyze", measured: sent } : { ...old, given: { ...old.given, model: sent }, changes: [], measured: undefined }));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const drop = {
    onDragOver: (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      if (event.dataTransfer?.files.length) void onFiles([...event.dataTransfer.files]);
    },
  };
  const tabs = (
    <nav aria-label="What is asked">
      {explorer.tabs.map((tab) => (
        <button type="button" aria-pressed={tab.verb === state.verb} onClick={() => setState({ ...state, verb: tab.verb, given: { ...tab.start, ...state.given }, changes: [] })}>{tab.label}</button>
      ))}
    </nav>
  );
  const panel = (
    <aside class="panel">
      {tabs}
      <Controls explorer={explorer} state={state} extra={extra} onChange={setState} onNear={prepare} onFiles={onFiles} key={String(state.given.model)} />
      {state.verb === "analyze" && <Pin state={state} pinned={pinned} onPin={setPinned} onSwap={(a, b) => { setPinned(b); setState(a); }} />}
      {state.verb === "analyze" && <Measured state={state} hidden={!!pinned || state.changes.length > 0 || String(state.given.hardware ?? "").includes(",")} onFiles={onFiles} onChange={setState} />}
      {state.verb === "analyze" && <Changes offered={extra.changes} state={state} onChange={setState} />}
    </aside>
  );
  const said = problem || extra.error;
  const lead = useMemo(() => extra.scan && { ...extra.scan, mark: extra.place ?? null }, [extra.scan, extra.place]);
  return (
    <div class={`explorer${over ? " over" : ""}`} {...drop}>
      <App
        page={shown}
        panel={panel}
        stale={waiting}
        lead={lead}
        why={extra.why}
        still={`${state.given.model} ${state.given.hardware}`}
        notice={
          <div role="status" class="notice">
            {said && <p class="problem">{said}</p>}
            {status && <p class="soft">{status}</p>}
            {waiting && <p class="working">working …</p>}
          </div>
        }
      />
    </div>
  );
}

interface MeasuredProps {
  state: State;
  /** It is not shown where answers are compared. */
  hidden: boolean;
  onFiles(files: File[]): void;
  onChange(state: State): void;
}

/** The measured times that are laid over the answer. */
function Measured({ state, hidden, onFiles, onChange }: MeasuredProps) {
  if (!state.measured) return <FileButton label="measured times" title="a profile that 'gambrel profile --save' wrote, or the trace of a profiler: measured dots beside the expected ones" onFiles={onFiles} />;
  return (
    <p class="pin">
      measured: {fileName(state.measured)}{" "}
      <button type="button" onClick={() => onChange({ ...state, measured: undefined })}>remove</button>
      {hidden && <span class="soft"> not shown while answers are compared</span>}
    </p>
  );
}

interface PinProps {
  state: State;
  pinned: State | null;
  onPin(state: State | null): void;
  onSwap(a: State, b: State): void;
}

function Pin({ state, pinned, onPin, onSwap }: PinProps) {
  if (!pinned) return <p><button type="button" title="keep this as A, change anything, and see what moves" onClick={() => onPin(state)}>pin as A</button></p>;
  return (
    <p class="pin">
      A: {describe(pinned)}{" "}
      <button type="button" onClick={() => onSwap(pinned, state)}>swap A and B</button>{" "}
      <button type="button" onClick={() => onPin(null)}>unpin</button>
    </p>
  );
}

function describe({ given, changes }: State): string {
  const { model, hardware, ...rest } = given;
  const more = Object.entries(rest).filter(([, value]) => value !== "" && value !== false).map(([name, value]) => `${name.replace("_size", "")} ${value}`);
  return [model, hardware, ...more, ...changes].filter(Boolean).join(", ");
}

/** Changes of fields are made there; with any other among them all are applied to the answer, in their order. */
const FIELD: Record<string, string> = { batch: "batch_size", precision: "precision", runtime: "runtime", hardware: "hardware", seq: "seq", context: "context", image: "image" };

function applied(state: State, changes: string[]): State {
  const pairs = changes.map((change) => change.split("="));
  if (!pairs.every(([name, value]) => value && FIELD[name])) return { ...state, changes: [...state.changes, ...changes] };
  const given = Object.fromEntries(pairs.map(([name, value]) => [FIELD[name], value]));
  return { ...state, given: { ...state.given, ...given } };
}

const EFFORT: Record<string, string> = { software: "same weights", batch: "more at once", retrain: "another model", replace: "another model or device" };

function Changes({ offered, state, onChange }: { offered?: Change[]; state: State; onChange(state: State): void }) {
  return (
    <section class="changes" aria-label="Changes">
      {state.changes.length > 0 && (
        <>
          <h2>Applied</h2>
          <ul class="chips">
            {state.changes.map((change, i) => (
              <li>
                {change}
                <button type="button" aria-label={`undo ${change}`} onClick={() => onChange({ ...state, changes: state.changes.filter((_, j) => j !== i) })}>×</button>
              </li>
            ))}
          </ul>
        </>
      )}
      {!!offered?.length && <h2>What would help</h2>}
      {offered?.map((change) => (
        <button type="button" class="change" title={change.about} onClick={() => onChange(applied(state, change.changes))}>
          <span class="name">{change.label}</span> <strong>{change.gain.toFixed(2)}×</strong>
          <span class="soft"> {EFFORT[change.effort] ?? change.effort}</span>
        </button>
      ))}
    </section>
  );
}
