// The question of the page, kept in its address: a reload or a link shows the same.

import type { Explorer, Given, State } from "./schema";

const VERB = "ask";
const CHANGE = "change";
const MEASURED = "measured";

export function toHash({ verb, given, changes, measured }: State): string {
  const words = new URLSearchParams({ [VERB]: verb });
  for (const [name, value] of Object.entries(given)) if (value !== "" && value !== false) words.set(name, String(value));
  for (const change of changes) words.append(CHANGE, change);
  if (measured) words.set(MEASURED, measured);
  return `#${words}`;
}

/** The question of an address; null where it has none. */
export function fromHash(hash: string, explorer: Explorer): State | null {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const verb = words.get(VERB);
  if (!verb || !explorer.tabs.some((tab) => tab.verb === verb)) return null;
  const given: Given = {};
  for (const [name, text] of words) {
    if (name === VERB || !explorer.fields[name]) continue;
    given[name] = explorer.fields[name].form === "flag" ? text === "true" : text;
  }
  return { verb, given, changes: words.getAll(CHANGE), measured: words.get(MEASURED) ?? undefined };
}

/** What is asked of a tab: the fields that it has. */
export function asked(state: State, explorer: Explorer): Given {
  const fields = explorer.tabs.find((tab) => tab.verb === state.verb)?.fields ?? [];
  return Object.fromEntries(Object.entries(state.given).filter(([name, value]) => fields.includes(name) && value !== ""));
}
