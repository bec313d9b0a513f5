import { render } from "preact";

import { App } from "./app";
import { load } from "./data";
import { ExplorerApp } from "./explorer/explorer";
import type { PageData } from "./schema";
import "./style.css";

/** Shows a page in an element; again with other data to change it. */
export function show(page: PageData, element: HTMLElement): void {
  element.setAttribute("aria-busy", "false");
  render(<App page={page} />, element);
}

const element = document.getElementById("page");
if (element) {
  load().then(
    (page) => {
      element.replaceChildren();
      const explorer = document.getElementById("gambrel-explorer");
      if (explorer) render(<ExplorerApp page={page} explorer={JSON.parse(explorer.textContent!)} />, element);
      else show(page, element);
      document.documentElement.dataset.ready = "true";
    },
    (error: unknown) => {
      const said = document.createElement("p");
      said.textContent = `This page could not be shown: ${error instanceof Error ? error.message : String(error)}`;
      element.append(said);
    },
  );
}
