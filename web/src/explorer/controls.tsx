// The controls: made from the fields of a question; sizes as sliders, the rest by their form.

import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";

import { whole } from "../format";
import type { Control, Explorer, Extra, Given, Size, State, Value } from "./schema";

interface Props {
  explorer: Explorer;
  state: State;
  extra: Extra;
  onChange(state: State): void;
  /** Questions that are likely next, the likeliest first. */
  onNear(states: State[]): void;
  onFiles(files: File[]): void;
}

/** Size of a model → field of the question. */
const SIZES: Record<string, string> = { batch: "batch_size" };
const ROOF = ["peak", "bandwidth"];

export function Controls({ explorer, state, extra, onChange, onNear, onFiles }: Props) {
  const tab = explorer.tabs.find((t) => t.verb === state.verb) ?? explorer.tabs[0];
  const set = (given: Given) => onChange({ ...state, given: { ...state.given, ...given } });
  const sizes = state.verb === "analyze" ? (extra.sizes ?? []) : [];
  const slid = [...sizes.map((s) => SIZES[s.name] ?? s.name), ...Object.keys(tab.sliders)];
  const own = ["model", "hardware", ...ROOF, ...slid, "sizes"];
  const needed = (name: string) => explorer.fields[name].required.includes(state.verb);
  const near = ["phase", "precision", "runtime"].filter((n) => tab.fields.includes(n) && (n !== "phase" || extra.language !== false));
  const first = tab.fields.filter((n) => needed(n) && !own.includes(n));
  const rest = tab.fields.filter((n) => ![...own, ...near, ...first].includes(n));
  const one = (name: string) => (
    <Field control={explorer.fields[name]} value={state.given[name] ?? ""} options={optionsOf(name, extra)} now={nowOf(name, extra)} onChange={(value) => onChange(withField(state, name, value, sizes))} />
  );
  const custom = ROOF.some((name) => state.given[name]);
  return (
    <form class="controls" aria-label="Question" onSubmit={(event) => event.preventDefault()}>
      <Model explorer={explorer} value={String(state.given.model ?? "")} onChoose={(model) => onChange({ ...withoutSizes(state, sizes), given: { ...withoutSizes(state, sizes).given, model }, changes: [], measured: undefined })} onFiles={onFiles} />
      {tab.fields.includes("hardware") && (
        <Devices explorer={explorer} value={custom ? "" : String(state.given.hardware ?? "")} most={state.verb === "analyze" ? explorer.most_devices : explorer.fields.hardware.several.includes(state.verb) ? 16 : 1} onChange={(hardware) => set({ hardware, peak: "", bandwidth: "" })} />
      )}
      {sizes.filter((s) => s.most !== s.least).map((size, i) => (
        <SizeSlider key={size.name} size={size} first={!i} given={sizeOf(state, size)} onChange={(value) => set(sizeGiven(state, size, value))} onNear={(values) => onNear(values.map((value) => ({ ...state, given: { ...state.given, ...sizeGiven(state, size, value) } })))} />
      ))}
      {Object.entries(tab.sliders).map(([name, steps]) => {
        const { label, help, default: usual } = explorer.fields[name];
        const given = String(state.given[name] ?? "");
        return <Slider key={name} name={label} about={help} steps={steps} value={Number(given) || null} least={1} empty={needed(name) ? undefined : String(usual ?? "any")} onChange={(value) => set({ [name]: value })} />;
      })}
      {near.map(one)}
      {first.map(one)}
      {tab.fields.includes("peak") && (
        <details open={custom}>
          <summary>a roof of your own</summary>
          {ROOF.map(one)}
        </details>
      )}
      {groupsOf(rest, explorer).map(([group, names]) => (
        <details>
          <summary>{group.toLowerCase()}</summary>
          {names.map(one)}
        </details>
      ))}
    </form>
  );
}

function groupsOf(names: string[], explorer: Explorer): [string, string[]][] {
  const groups = new Map<string, string[]>();
  for (const name of names) {
    const group = explorer.fields[name].group;
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return [...groups];
}

const optionsOf = (name: string, extra: Extra): [string, string][] =>
  name === "runtime" ? (extra.runtimes ?? []) : name === "precision" ? (extra.precisions ?? []).map((p) => [p, p]) : [];
const nowOf = (name: string, extra: Extra): string => (name === "runtime" ? extra.runtime : name === "precision" ? extra.precision : "") ?? "";

/** Another model has other sizes: only the batch is kept. */
function withoutSizes(state: State, sizes: Size[]): State {
  const given = { ...state.given };
  for (const s of sizes) if (s.name !== "batch") delete given[SIZES[s.name] ?? s.name];
  delete given.sizes;
  return { ...state, given };
}

/** The question with another value: a phase has sizes of its own, a roof of one's own is no device's. */
function withField(state: State, name: string, value: Value, sizes: Size[]): State {
  const base = name === "phase" ? withoutSizes(state, sizes) : state;
  const device: Given = ROOF.includes(name) && value ? { hardware: "" } : {};
  return { ...base, given: { ...base.given, ...device, [name]: value } };
}

interface ModelProps {
  explorer: Explorer;
  value: string;
  onChoose(model: string): void;
  onFiles(files: File[]): void;
}

function Model({ explorer, value, onChoose, onFiles }: ModelProps) {
  const list = useId();
  const shown = fileName(value);
  return (
    <div class="control">
      <label>
        model
        <Committed value={shown} list={list} placeholder="name or drop a file" onCommit={onChoose} known={explorer.models.map(([name]) => name)} />
      </label>
      {useOptions(list, explorer.models)}
      <FileButton label="file" title="config.json, GGUF, safetensors, ONNX: only what describes the model is read" onFiles={onFiles} />
    </div>
  );
}

/** The own name of a file that was sent; any other name as it is. */
export const fileName = (name: string): string => (name.startsWith("upload:") ? name.split("/").pop()! : name);

/** Opens the browser's choice of files. */
export function FileButton({ label, title, onFiles }: { label: string; title: string; onFiles(files: File[]): void }) {
  const file = useRef<HTMLInputElement>(null);
  const chosen = (input: HTMLInputElement) => {
    if (input.files?.length) onFiles([...input.files]);
    input.value = ""; // the same file may be chosen again
  };
  return (
    <>
      <button type="button" class="plain" title={title} onClick={() => file.current!.click()}>{label}</button>
      <input ref={file} type="file" hidden multiple aria-label={title} onChange={(e) => chosen(e.currentTarget)} />
    </>
  );
}

interface CommittedProps {
  value: string;
  list?: string;
  placeholder?: string;
  /** Texts that are taken as soon as they stand there, e.g. chosen from a list. */
  known?: string[];
  onCommit(value: string): void;
}

/** A text that counts when it is finished: Enter, a choice of the list, or the next field. */
function Committed({ value, onCommit, known = [], ...more }: CommittedProps) {
  const commit = (text: string) => text.trim() !== value && onCommit(text.trim());
  return (
    <input
      type="text"
      autocomplete="off"
      spellcheck={false}
      value={value}
      {...more}
      onInput={(event) => {
        const chosen = (event as InputEvent).inputType === "insertReplacementText" || !(event instanceof InputEvent);
        if (chosen && known.includes(event.currentTarget.value)) commit(event.currentTarget.value);
      }}
      onChange={(event) => commit(event.currentTarget.value)}
    />
  );
}

/** Hundreds of choices, made once. */
function useOptions(list: string, choices: [string, string][]): JSX.Element {
  return useMemo(() => <datalist id={list}>{choices.map(([name, about]) => <option value={name}>{about}</option>)}</datalist>, [list, choices]);
}

function Devices({ explorer, value, most, onChange }: { explorer: Explorer; value: string; most: number; onChange(value: string): void }) {
  const list = useId();
  const names = value.split(",").filter(Boolean);
  const add = (name: string) => name && onChange((most === 1 ? [name] : [...names.filter((n) => n !== name), name]).join(","));
  return (
    <div class="control">
      <label>
        device
        <Committed key={value} value="" list={list} placeholder={most > 1 && names.length ? "add a device to compare" : "choose a device"} onCommit={add} known={explorer.devices.map(([id]) => id)} />
      </label>
      {useOptions(list, explorer.devices)}
      <ul class="chips" aria-label="Devices">
        {names.map((name) => (
          <li>
            {name}
            <button type="button" aria-label={`remove ${name}`} onClick={() => onChange(names.filter((n) => n !== name).join(","))}>×</button>
          </li>
        ))}
      </ul>
      {names.length > most && <p class="soft">at most {most} here</p>}
    </div>
  );
}

const sizeOf = (state: State, size: Size): string => {
  const own = SIZES[size.name] ?? size.name;
  return String(state.given[own] ?? others(state)[size.name] ?? "");
};

/** Sizes without a field of their own, NAME=NUMBER. */
const others = (state: State): Record<string, string> =>
  Object.fromEntries(String(state.given.sizes ?? "").split(" ").filter(Boolean).map((pair) => pair.split("=")));

const OWN = ["batch", "seq", "context", "image"];

function sizeGiven(state: State, size: Size, value: string): Given {
  if (OWN.includes(size.name)) return { [SIZES[size.name] ?? size.name]: value };
  const all = { ...others(state), [size.name]: value };
  return { sizes: Object.entries(all).map(([name, number]) => `${name}=${number}`).join(" ") };
}

/** Values of a slider: all of a short range, else steps that grow. */
export function ladder({ least, most, step, value }: Size): number[] {
  const end = Math.max(most ?? Math.max(1024, 8 * value), value);
  const values = new Set<number>([least, value]);
  for (let v = least; v <= end; v += step) {
    values.add(v);
    if (values.size > 64) break;
  }
  if (values.size > 64) {
    values.clear();
    for (let v = least; v <= end; v = Math.max(v + step, Math.ceil((v * 1.19) / step) * step)) values.add(v);
    for (let v = step; v <= end; v *= 2) if (v >= least) values.add(v);
  }
  return [...values].sort((a, b) => a - b);
}

/** Rest after which the values of the first slider are asked for, in ms. */
const IDLE = 1500;

interface SliderProps {
  name: string;
  about: string;
  steps: number[];
  /** Null where nothing is chosen. */
  value: number | null;
  least: number;
  most?: number;
  step?: number;
  /** What is used where nothing is chosen; without it something always is. */
  empty?: string;
  /** The one that is most likely dragged. */
  first?: boolean;
  onChange(value: string): void;
  /** The other values, the nearest first. */
  onNear?(values: string[]): void;
}

function Slider({ name, about, steps, value, least, most, step, empty, first, onChange, onNear }: SliderProps) {
  const [text, setText] = useState<string | null>(null);
  const now = text ? Number(text) || value : value;
  // With nothing chosen as its left end, where that may be.
  const places = empty === undefined ? steps.map(String) : ["", ...steps.map(String)];
  const at = now === null ? 0 : places.reduce((best, v, i) => (v && Math.abs(Number(v) - now) < Math.abs((Number(places[best]) || Infinity) - now) ? i : best), 0);
  const near = (place: number, way = 1) => {
    // What lies behind the hand counts as three times as far.
    const far = (i: number) => Math.abs(i - place) * (Math.sign(i - place) === way ? 1 : 3);
    const others = places.map((_, i) => i).filter((i) => i !== place);
    onNear?.(others.sort((a, b) => far(a) - far(b)).map((i) => places[i]));
  };
  useEffect(() => {
    if (!first) return;
    const idle = setTimeout(() => near(at), IDLE);
    return () => clearTimeout(idle);
  });
  const move = (place: number) => {
    onChange(places[place]);
    near(place, Math.sign(place - at) || 1);
  };
  const commit = (given: string) => {
    setText(null);
    if (given || empty !== undefined) onChange(given);
  };
  return (
    <div class="control slider" title={about}>
      <label>
        {name}
        <input type="range" min={0} max={places.length - 1} value={at} aria-valuetext={now === null ? empty : whole(now)} onPointerEnter={() => near(at)} onFocus={() => near(at)} onInput={(e) => move(Number(e.currentTarget.value))} />
      </label>
      <input type="number" min={least} max={most} step={step} value={text ?? now ?? ""} placeholder={empty} aria-label={name} onInput={(e) => setText(e.currentTarget.value)} onChange={(e) => commit(e.currentTarget.value)} />
    </div>
  );
}

/** A size of the model; its steps stay while it is dragged. */
function SizeSlider({ size, given, ...more }: Pick<SliderProps, "first" | "onChange" | "onNear"> & { size: Size; given: string }) {
  const [steps] = useState(() => ladder(size));
  return <Slider name={size.name} about={size.about} steps={steps} value={Number(given) || size.value} least={size.least} most={size.most ?? undefined} step={size.step} {...more} />;
}

interface FieldProps {
  control: Control;
  value: Value;
  options: [string, string][];
  /** What is used where nothing is chosen. */
  now: string;
  onChange(value: Value): void;
}

function Field({ control, value, options, now, onChange }: FieldProps) {
  const listed: [string, string][] = control.form === "choice" ? control.choices.map((c) => [c, c]) : options;
  if (control.form === "flag") {
    return (
      <label class="control flag" title={control.help}>
        <input type="checkbox" checked={value === true} onChange={(e) => onChange(e.currentTarget.checked)} /> {control.label}
      </label>
    );
  }
  const list = useId();
  const empty = now ? `${now} (default)` : control.default !== null ? `${control.default} (default)` : "default";
  if (control.form === "choice") {
    return (
      <label class="control" title={control.help}>
        {control.label}
        <select value={String(value)} onChange={(e) => onChange(e.currentTarget.value)}>
          <option value="">{empty}</option>
          {listed.map(([id, text]) => <option value={id}>{text}</option>)}
        </select>
      </label>
    );
  }
  return (
    <label class="control" title={control.help}>
      {control.label}
      <Committed value={String(value)} list={listed.length ? list : undefined} placeholder={now || (control.default === null ? control.example || control.unit : String(control.default))} known={listed.map(([id]) => id)} onCommit={onChange} />
      {listed.length > 0 && <datalist id={list}>{listed.map(([id, text]) => <option value={id}>{text === id ? "" : text}</option>)}</datalist>}
    </label>
  );
}
