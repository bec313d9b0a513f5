// Python in the browser: answers the questions of the page; files and answers stay on this computer.

import { loadPyodide } from "./py/pyodide.mjs";

let settings = null;
let python = null;
let files = 0;

const say = (text) => postMessage({ status: text });

async function start(given) {
  settings = given;
  say("Python is loading; until then only stored answers change.");
  const made = await loadPyodide({ indexURL: new URL("./py/", import.meta.url).href });
  for (const name of settings.wheels) {
    const wheel = await fetch(new URL(`./py/${name}`, import.meta.url));
    if (!wheel.ok) throw new Error(`${name}: ${wheel.status}`);
    made.unpackArchive(await wheel.arrayBuffer(), "wheel");
  }
  made.FS.mkdirTree("/files");
  made.runPython("from gambrel.explorer.browser import answer");
  python = made;
  say("");
}

/** A package of Pyodide's distribution, from where the site says that it is. */
async function load(name) {
  if (!settings.packages) return false;
  say(`${name} is loading from ${new URL(settings.packages).host}.`);
  try {
    const lock = await (await fetch(new URL("./py/pyodide-lock.json", import.meta.url))).json();
    const wheel = await fetch(new URL(lock.packages[name].file_name, settings.packages));
    if (!wheel.ok) return false;
    python.unpackArchive(await wheel.arrayBuffer(), "wheel");
    return true;
  } catch {
    return false;
  } finally {
    say("");
  }
}

async function ask(request) {
  const call = () => JSON.parse(python.globals.get("answer")(JSON.stringify(request)));
  let made = call();
  if (made.missing && (await load(made.missing))) made = call();
  if (!made.missing) return made;
  if (request.verb === "analyze" && !request.brief) {
    const brief = await ask({ ...request, brief: true });
    if (brief.page) return { ...brief, changes: [] };
  }
  return { error: `this question needs ${made.missing}, which this copy of the site cannot load; install gambrel and run 'gambrel explore'.` };
}

/** Files are looked into where they lie; nothing is copied or sent. */
function send(list) {
  const folder = `/files/${++files}`;
  python.FS.mkdirTree(folder);
  python.FS.mount(python.FS.filesystems.WORKERFS, { files: list }, folder);
  return `upload:${files}/${list[list.length - 1].name}`;
}

let turn = Promise.resolve();

onmessage = ({ data }) => {
  turn = turn.then(async () => {
    try {
      if (data.start) await start(data.start);
      else if (data.files) postMessage({ id: data.id, value: send(data.files) });
      else postMessage({ id: data.id, value: await ask(data.request) });
    } catch (error) {
      if (data.start) say(`Python did not start (${error.message ?? error}); stored answers are shown.`);
      else postMessage({ id: data.id, value: { error: python ? `${error.message ?? error}`.split("\n").filter(Boolean).pop() : "Python did not start here; only stored answers are shown." } });
    }
  });
};
