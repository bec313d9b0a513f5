// The parts of a file that describe the model: weights stay where they are.

type Part = [start: number, bytes: Uint8Array<ArrayBuffer>];

/** Files up to this are sent whole. */
const SMALL = 4 << 20;
/** What is sent of formats that say nowhere how long their header is. */
const HEAD = 32 << 20;
/** Recordings of profilers have no header: they are sent whole up to this. */
const WHOLE = 250 << 20;
/** Within ONNX, data of tensors below this are sent: shapes and indices, which a graph computes with. */
const CONSTANT = 1 << 14;

/** The body of the request that sends a file; see `gambrel.explorer.uploads`. */
export async function describing(file: File, group: string): Promise<Blob> {
  const parts = await partsOf(file);
  const about = { name: file.name, size: file.size, group, parts: parts.map(([start, bytes]) => [start, bytes.length]) };
  const text = new TextEncoder().encode(JSON.stringify(about));
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, text.length, true);
  return new Blob([length, text, ...parts.map(([, bytes]) => bytes)]);
}

const read = async (file: File, start: number, end: number): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await file.slice(start, end).arrayBuffer());

export async function partsOf(file: File): Promise<Part[]> {
  if (file.size <= SMALL) return [[0, await read(file, 0, file.size)]];
  const head = await read(file, 0, 16);
  const magic = new TextDecoder("latin1").decode(head.subarray(0, 4));
  if (magic === "GGUF") return [[0, await read(file, 0, Math.min(file.size, HEAD))]];
  const length = new DataView(head.buffer).getBigUint64(0, true);
  if (head[8] === 0x7b && length < 1n << 28n) return [[0, await read(file, 0, 8 + Number(length))]];
  if (file.name.endsWith(".onnx")) return onnx(file);
  if (file.size <= WHOLE) return [[0, await read(file, 0, file.size)]];
  throw new Error(`${file.name} has ${Math.round(file.size / 2 ** 20)} MiB and is of a format without a header; analyze it with 'gambrel analyze'.`);
}

/** The same in one place: of protobuf everything but the data of large tensors. */
async function onnx(file: File): Promise<Part[]> {
  const skipped: [number, number][] = [];
  await walk(new Bytes(file), 0, file.size, "model", skipped);
  const parts: Part[] = [];
  let at = 0;
  for (const [start, end] of [...skipped, [file.size, file.size]]) {
    if (start > at) parts.push([at, await read(file, at, start)]);
    at = end;
  }
  return parts;
}

/** Message and number of a field → message within it (onnx.proto3). */
const INSIDE: Record<string, string> = {
  "model.7": "graph",
  "graph.1": "node",
  "graph.5": "tensor",
  "node.5": "attribute",
  "attribute.5": "tensor",
  "attribute.6": "graph",
};
const RAW = 9;

async function walk(bytes: Bytes, start: number, end: number, message: string, skipped: [number, number][]): Promise<void> {
  let at = start;
  while (at < end) {
    const [key, after] = await bytes.number(at);
    const [field, wire] = [Math.floor(key / 8), key % 8];
    at = after;
    if (wire === 0) at = (await bytes.number(at))[1];
    else if (wire === 1) at += 8;
    else if (wire === 5) at += 4;
    else if (wire === 2) {
      const [size, body] = await bytes.number(at);
      at = body + size;
      const inner = INSIDE[`${message}.${field}`];
      if (message === "tensor" && field === RAW && size > CONSTANT) skipped.push([body, at]);
      else if (inner && size > CONSTANT) await walk(bytes, body, at, inner, skipped);
    } else throw new Error("this file is no ONNX model.");
  }
}

const CHUNK = 1 << 18;

/** A file read in pieces. */
class Bytes {
  private start = 0;
  private piece = new Uint8Array(0);

  constructor(private readonly file: File) {}

  /** A varint, and where it ends. */
  async number(at: number): Promise<[number, number]> {
    let value = 0;
    for (let i = 0; i < 10; i++) {
      const byte = await this.byte(at + i);
      value += (byte & 127) * 2 ** (7 * i);
      if (byte < 128) return [value, at + i + 1];
    }
    throw new Error("this file is no ONNX model.");
  }

  private async byte(at: number): Promise<number> {
    if (at < this.start || at >= this.start + this.piece.length) {
      this.start = at;
      this.piece = await read(this.file, at, Math.min(this.file.size, at + CHUNK));
    }
    return this.piece[at - this.start] ?? 0;
  }
}

/** A configuration says what a model is; files beside it belong to it. */
export function mainLast(files: File[]): File[] {
  return [...files].sort((a, b) => Number(a.name.endsWith("config.json")) - Number(b.name.endsWith("config.json")));
}
