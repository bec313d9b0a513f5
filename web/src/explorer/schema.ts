// What a page with controls knows, written by `gambrel.explorer`.

import type { Curves, PageData } from "../schema";

export type Value = string | boolean;
export type Given = Record<string, Value>;

/** A question, and what is done to it. The address of the page holds it. */
export interface State {
  verb: string;
  given: Given;
  /** Changes that were applied, as `gambrel what-if --change` takes them. */
  changes: string[];
  /** A file with measured times that is laid over the answer. */
  measured?: string;
}

export interface Control {
  label: string;
  help: string;
  group: string;
  form: "flag" | "choice" | "text";
  choices: string[];
  unit: string;
  example: string;
  default: string | number | null;
  several: string[];
  required: string[];
}

export interface Size {
  name: string;
  value: number;
  least: number;
  most: number | null;
  step: number;
  about: string;
}

export interface Change {
  changes: string[];
  label: string;
  gain: number;
  about: string;
  effort: string;
}

/** What an answer says besides the page. */
export interface Extra {
  error?: string;
  /** A file that was sent holds measured times, and is no model. */
  measured?: boolean;
  sizes?: Size[];
  /** The model is a language model, which has phases. */
  language?: boolean;
  runtime?: string;
  precision?: string;
  runtimes?: [string, string][];
  precisions?: string[];
  changes?: Change[];
  /** Batch and rate of the answer. */
  place?: [number, number] | null;
  /** What limits at this batch, in a sentence or two. */
  why?: string;
  /** The rate over the batch. */
  scan?: Curves | null;
}

export interface Answer extends Extra {
  page?: PageData;
}

export interface Explorer {
  tabs: { verb: string; label: string; fields: string[]; start: Given; sliders: Record<string, number[]> }[];
  fields: Record<string, Control>;
  most_devices: number;
  models: [string, string][];
  devices: [string, string][];
  state: { verb: string; given: Given };
  /** A server with its token, or Python in this browser with its wheels and stored answers. */
  engine: { kind: "server"; token: string } | SiteEngine;
  first: Extra;
}

export interface SiteEngine {
  kind: "browser";
  wheels: string[];
  /** Where packages are that the site has not; empty for nowhere. */
  packages: string;
  /** Questions with a stored answer: model and device. */
  stored: { models: string[]; devices: string[] };
}

export interface Request extends State {
  against?: Given;
  against_changes?: string[];
  brief?: boolean;
}
