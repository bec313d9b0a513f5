// Where answers come from: a server on this machine, or Python in this browser.

import type { Answer, Explorer, Request } from "./schema";
import { BrowserEngine } from "./browser";
import { describing, mainLast } from "./headers";

export interface Engine {
  ask(request: Request): Promise<Answer>;
  /** Makes a model of files; what it is called in a question. */
  send(files: File[]): Promise<string>;
  /** What the engine says of itself, e.g. that it still loads. */
  onStatus?(show: (text: string) => void): void;
}

export function engineOf({ engine }: Explorer): Engine {
  return engine.kind === "browser" ? new BrowserEngine(engine) : new ServerEngine(engine.token);
}

const SESSION = "gambrel-session";

/** One name a tab; a reload keeps its files. */
function session(): string {
  try {
    const known = sessionStorage.getItem(SESSION) ?? crypto.randomUUID();
    sessionStorage.setItem(SESSION, known);
    return known;
  } catch {
    return crypto.randomUUID();
  }
}

class ServerEngine implements Engine {
  private readonly headers: Record<string, string>;

  constructor(token: string) {
    this.headers = { "X-Gambrel-Token": token, "X-Gambrel-Session": session() };
  }

  ask(request: Request): Promise<Answer> {
    return this.post("/ask", JSON.stringify(request));
  }

  async send(files: File[]): Promise<string> {
    let model = "";
    for (const file of mainLast(files)) {
      const group = model.replace(/^upload:/, "").split("/")[0];
      const answer = await this.post("/file", await describing(file, group));
      if (answer.error) throw new Error(answer.error);
      model = (answer as { model: string }).model;
    }
    return model;
  }

  private async post(url: string, body: BodyInit): Promise<Answer> {
    try {
      const answer = await fetch(url, { method: "POST", headers: this.headers, body });
      return await answer.json();
    } catch {
      return { error: "the server does not answer; is 'gambrel explore' still running?" };
    }
  }
}
