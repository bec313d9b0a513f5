// Answers of Python in this browser; until it has loaded, those that the site has stored.

import type { Engine } from "./engine";
import { mainLast } from "./headers";
import type { Answer, Request, SiteEngine } from "./schema";

/** Rest after the first paint before Python is loaded, in ms. */
const REST = 300;

export class BrowserEngine implements Engine {
  private worker: Worker | null = null;
  private ready = false;
  private status: (text: string) => void = () => {};
  private readonly waiting = new Map<number, (value: never) => void>();
  private calls = 0;

  constructor(private readonly site: SiteEngine) {
    setTimeout(() => this.started(), REST);
    if (location.protocol === "https:" || location.hostname === "127.0.0.1" || location.hostname === "localhost") {
      void navigator.serviceWorker?.register("offline.js").catch(() => {});
    }
  }

  onStatus(show: (text: string) => void): void {
    this.status = show;
  }

  async ask(request: Request): Promise<Answer> {
    const stored = this.ready ? null : await this.stored(request);
    return stored ?? this.call({ request });
  }

  send(files: File[]): Promise<string> {
    return this.call({ files: mainLast(files) });
  }

  private call<T>(message: { request: Request } | { files: File[] }): Promise<T> {
    const id = ++this.calls;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.started().postMessage({ id, ...message });
    });
  }

  private started(): Worker {
    if (this.worker) return this.worker;
    const worker = new Worker("worker.js", { type: "module" });
    worker.onmessage = ({ data }) => {
      if ("status" in data) {
        this.ready ||= data.status === "";
        this.status(data.status);
      } else {
        this.waiting.get(data.id)?.(data.value as never);
        this.waiting.delete(data.id);
      }
    };
    worker.onerror = (event) => this.status(`Python did not start (${event.message || "blocked"}); stored answers are shown.`);
    worker.postMessage({ start: { wheels: this.site.wheels, packages: this.site.packages } });
    this.worker = worker;
    return worker;
  }

  /** The answer to a question with a model and a device and nothing else. */
  private async stored({ verb, given, changes, against, measured }: Request): Promise<Answer | null> {
    const { model, hardware, ...more } = given;
    const { models, devices } = this.site.stored;
    const plain = verb === "analyze" && !changes.length && !against && !measured && !Object.values(more).some(Boolean);
    if (!plain || !models.includes(String(model)) || !devices.includes(String(hardware))) return null;
    if (!navigator.onLine) return null; // Python is kept for that, the answers are not
    const answer = await fetch(`answers/${model}/${hardware}.json.gz`).catch(() => null);
    if (answer?.status !== 200 || !answer.body) return null;
    return new Response(answer.body.pipeThrough(new DecompressionStream("gzip"))).json();
  }
}
