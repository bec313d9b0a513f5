// Small helpers. Text always goes through textContent: nothing from a model or file becomes markup.
const SVG_NS = "http://www.w3.org/2000/svg";

// Control characters and direction marks are made visible: they could reorder what is read.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu;
const visible = (child) => (typeof child === "string"
  ? child.replace(UNSEEN, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`) : child);

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined).map(visible));
  return element;
}
const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => build(document.createElementNS(SVG_NS, tag), attributes, children);
const byId = (id) => document.getElementById(id);
const readData = (id) => JSON.parse(byId(id).textContent);

// Numbers to text, by the same rules as the other reports.
const BIG = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SMALL = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];

function plain(value, digits) {
  return String(Number(value.toPrecision(digits)));
}
function si(value, unit, digits = 4) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return `0 ${unit}`.trim();
  const steps = unit === "s" || unit === "" ? [...BIG, ...SMALL] : [...BIG, [1, ""]];
  const step = steps.find(([scale]) => Number((Math.abs(value) / scale).toPrecision(digits)) >= 1) || steps.at(-1);
  return `${plain(value / step[0], digits)} ${step[1]}${unit}`.trim();
}
// A memory capacity, the one quantity in binary units.
const BINARY = [[2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"], [1, ""]];
function capacity(value) {
  if (value === null || value === undefined) return "unknown";
  const [scale, prefix] = BINARY.find(([unit]) => value >= unit) || BINARY.at(-1);
  return `${plain(value / scale, 4)} ${prefix}B`;
}
function number(value, digits = 4) {
  if (value === null || value === undefined) return "unknown";
  return value === "Infinity" ? "∞" : plain(value, digits);
}
function percent(value) {
  return value === null || value === undefined ? "unknown" : `${(value * 100).toFixed(1)}%`;
}
// An estimate with its range; "unknown" where there is none.
function expectedText(measures) {
  const e = measures;
  return e.expected_time_s === null ? "unknown" : `${si(e.expected_time_s, "s", 3)} (${si(e.expected_low_s, "s", 3)} to ${si(e.expected_high_s, "s", 3)})`;
}
// Of the measured time where there is one, else of the roofline time.
const shareOf = (op) => (op.measured ? op.measured.share : op.time_share);
const boundOf = (measures) => measures.bound || "unknown";

// A device's source, linked where its address is an ordinary one.
function sourceOf(source) {
  if (!source) return h("span", {}, "");
  const date = source.date ? `, ${source.date}` : "";
  const text = `${source.title}${date} (${source.confidence || "user"})`;
  if (!/^https?:\/\//i.test(source.url || "")) return h("span", {}, text);
  return h("a", { href: source.url, rel: "noopener noreferrer", target: "_blank" }, text);
}
