// The frame of every page: the verdict in one line, a few figures, the chart beside them; the rest folded.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

import { BarsChart } from "./bars";
import { Rows } from "./columns";
import { Copy, Download, fileNameOf, save } from "./download";
import { Explain, Explainer, useExplain, type Explanation } from "./explain";
import { Breakdown, LinkedChart, LinkedTable, useLinked } from "./linked";
import { Late } from "./late";
import { CurvesChart } from "./pictures";
import { RooflineChart, Still } from "./roofline/chart";
import type { Block, Chart, Curves, Figure, PageData, Roofline, Section, Table, View } from "./schema";
import { explanationOf, Sentence } from "./sentence";
import { TableView } from "./table";

interface Props {
  page: PageData;
  /** Controls beside the page. */
  panel?: ComponentChildren;
  /** What is to be said above everything. */
  notice?: ComponentChildren;
  /** A newer answer is on its way. */
  stale?: boolean;
  /** A chart right below the answer. */
  lead?: Curves | null;
  /** What is said above that chart; it changes with every step of a slider. */
  why?: string;
  /** What the axes of rooflines belong to; they stay while it does. */
  still?: string;
}

export function App({ page, panel, notice, stale, lead, why, still = "" }: Props) {
  const [index, setIndex] = useState(0);
  const [what, setWhat] = useState<Explanation | null>(null);
  const view = page.views[Math.min(index, page.views.length - 1)];
  const lower = useMemo(() => (lead || why) && (
    <section class="lead" aria-label={lead?.title ?? "Why"}>
      {why && <p class="why" aria-live="polite">{why}</p>}
      {lead && <CurvesChart chart={lead} tall={230} />}
    </section>
  ), [lead, why]);
  // Controls beside it change more often than it does.
  const content = useMemo(
    () => (
      <Still.Provider value={still}>
        <ViewBody key={index} view={view} page={page} lead={lower} />
      </Still.Provider>
    ),
    [index, view, page, lower, still],
  );
  const body = <main class={stale ? "stale" : ""}>{content}</main>;
  return (
    <Explain.Provider value={setWhat}>
      <header>
        <h1>{page.title}</h1>
        <span class="aside">{view.aside}</span>
        <Tools page={page} view={view} />
      </header>
      {notice}
      {page.views.length > 1 && (
        <nav aria-label="Analyses">
          {page.views.map((v, i) => (
            <button type="button" aria-pressed={i === index} onClick={() => setIndex(i)}>{v.label}</button>
          ))}
        </nav>
      )}
      {panel ? <div class="beside">{panel}{body}</div> : body}
      <footer>
        <p>gambrel {page.version}. Click a figure to see its formula, source and confidence.</p>
      </footer>
      <Explainer what={what} onClose={() => setWhat(null)} />
    </Explain.Provider>
  );
}

function Tools({ page, view }: { page: PageData; view: View }) {
  const [dark, setDark] = useState<boolean | null>(null);
  const turn = () => {
    const next = !(dark ?? matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = next ? "dark" : "light";
    document.dispatchEvent(new Event("gambrel-theme"));
    setDark(next);
  };
  return (
    <span class="tools">
      {view.commands.shell && <Copy label="copy as command" text={view.commands.shell} />}
      {view.commands.python && <Copy label="copy as Python" text={view.commands.python} />}
      <button type="button" onClick={() => save("gambrel.json", JSON.stringify(asRecords(page), null, 1), "application/json")}>JSON</button>
      <button type="button" title="light or dark" aria-label="light or dark" onClick={turn}>◐</button>
    </span>
  );
}

/** The page for other programs: tables as records in base SI units. */
function asRecords(page: PageData): unknown {
  const views = page.views.map((view) => ({
    title: view.title,
    answer: view.answer,
    figures: view.figures,
    tables: tablesOf(view).map((table) => ({ heading: table.heading ?? "", rows: new Rows(table, page).records() })),
  }));
  return { type: page.type, gambrel_version: page.version, title: page.title, terms: page.terms, views };
}

const tablesOf = (view: View): Table[] => view.sections.flatMap((s) => s.blocks).filter((b): b is Table => b.kind === "table");

function ViewBody({ view, page, lead }: { view: View; page: PageData; lead?: ComponentChildren }) {
  const [first, ...rest] = view.charts;
  const table = tablesOf(view).find((t) => t.linked);
  if (first?.kind === "roofline" && table) return <LinkedBody view={view} page={page} chart={first} table={table} rest={rest} lead={lead} />;
  // What was asked for, row by row, stands before further charts.
  const open = view.sections.findIndex((s) => !s.folded && s.blocks.some((b) => b.kind === "table" && b.rows > 0));
  return (
    <>
      <Top view={view} chart={first && <AnyChart chart={first} page={page} />} />
      <Sections sections={view.sections.slice(0, open + 1)} page={page} />
      <Rest charts={rest} page={page} />
      <Sections sections={view.sections.slice(open + 1)} page={page} />
    </>
  );
}

interface LinkedProps {
  view: View;
  page: PageData;
  chart: Roofline;
  table: Table;
  rest: Chart[];
  lead?: ComponentChildren;
}

function LinkedBody({ view, page, chart, table, rest, lead }: LinkedProps) {
  const state = useLinked(chart, table, page);
  return (
    <>
      <Top view={view} chart={<LinkedChart chart={chart} page={page} state={state} />} />
      <Late of={page}>
        {lead}
        <Breakdown state={state} />
        <LinkedTable state={state} />
        {useMemo(() => <Rest charts={rest} page={page} />, [view])}
        {useMemo(() => <Sections sections={view.sections} page={page} except={table} />, [view])}
      </Late>
    </>
  );
}

function Top({ view, chart }: { view: View; chart: ComponentChildren }) {
  const [verdict, ...more] = view.answer;
  const spoken = view.answer.length + view.figures.length > 0;
  return (
    <section class={`top${chart && spoken ? " charted" : ""}`} aria-label="Answer">
      {spoken && <div class="words">
        {verdict && <p class={`verdict s-${view.style}`}><Sentence text={verdict} figures={view.figures} /></p>}
        {more.map((line) => <p><Sentence text={line} figures={view.figures} /></p>)}
        {view.figures.length > 0 && <div class="figures">{view.figures.map((f) => <FigureCard figure={f} />)}</div>}
      </div>}
      {chart && <div class="picture">{chart}</div>}
    </section>
  );
}

function FigureCard({ figure }: { figure: Figure }) {
  const explain = useExplain();
  return (
    <button type="button" class="figure" onClick={() => explain(explanationOf(figure))}>
      <span class="label">{figure.label}</span>
      <span class="big">{figure.text}</span>
      <span class="note">{figure.note}</span>
    </button>
  );
}

const NONE = { shown: null, hover: null, chosen: null, onHover: () => {}, onChoose: () => {}, share: () => null };

function AnyChart({ chart, page }: { chart: Chart; page: PageData }) {
  if (chart.kind === "roofline") return <Alone chart={chart} page={page} />;
  if (chart.kind === "bars") return <BarsChart chart={chart} />;
  return <CurvesChart chart={chart} />;
}

/** A roofline without a table of its own. */
function Alone({ chart, page }: { chart: Roofline; page: PageData }) {
  const [hover, setHover] = useState<number | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  return <RooflineChart {...NONE} chart={chart} page={page} hover={hover} chosen={chosen} onHover={setHover} onChoose={setChosen} />;
}

function Rest({ charts, page }: { charts: Chart[]; page: PageData }) {
  if (!charts.length) return null;
  return <section class="charts" aria-label="Charts">{charts.map((c) => <AnyChart chart={c} page={page} />)}</section>;
}

function Sections({ sections, page, except }: { sections: Section[]; page: PageData; except?: Table }) {
  return (
    <>
      {sections.map((section) => {
        const blocks = section.blocks.filter((b) => b !== except);
        if (!blocks.length) return null;
        const body = blocks.map((b) => <div class="block"><BlockView block={b} page={page} /></div>);
        if (!section.folded) return <section>{body}</section>;
        return <details><summary>{section.about}</summary>{body}</details>;
      })}
    </>
  );
}

function BlockView({ block, page }: { block: Block; page: PageData }) {
  if (block.kind === "facts") {
    return (
      <>
        {block.heading && <h2>{block.heading}</h2>}
        <dl class={`facts${block.items.length < FEW_FACTS ? " short" : ""}`}>{block.items.map(([label, text]) => <div><dt>{label}</dt><dd>{text}</dd></div>)}</dl>
      </>
    );
  }
  if (block.kind === "notes") {
    return (
      <>
        {block.heading && <h2 class={`s-${block.style}`}>{block.heading}</h2>}
        <ul>{block.items.map((text) => <li>{text}</li>)}</ul>
      </>
    );
  }
  return <PlainTable table={block} page={page} />;
}

const MANY = 20;
/** Fewer facts stay in one column. */
const FEW_FACTS = 6;

function PlainTable({ table, page }: { table: Table; page: PageData }) {
  const rows = useMemo(() => new Rows(table, page), [table, page]);
  const [query, setQuery] = useState("");
  const shown = useMemo(() => rows.matching(query), [rows, query]);
  return (
    <>
      {table.rows > 0 && (
        <div class={table.heading || table.rows >= MANY ? "titled" : "bare"}>
          <div class="bar">
            {table.heading && <h2>{table.heading}</h2>}
            {table.rows >= MANY && <label>search <input type="search" value={query} onInput={(e) => setQuery(e.currentTarget.value)} /></label>}
            {shown && <output>{shown.size} of {table.rows} {table.rows === 1 ? "row" : "rows"}</output>}
            <Download name={fileNameOf(table.heading || "table")} csv={() => rows.csv(shown ? [...shown] : Array.from({ length: rows.count }, (_, i) => i))} />
          </div>
          <TableView rows={rows} shown={shown} label={table.heading || "Table"} />
        </div>
      )}
      {table.note && <p class="soft">{table.note}</p>}
    </>
  );
}
