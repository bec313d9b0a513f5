// Records which sources the built files come from, and refuses what a page could not carry.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const asset = "../src/gambrel/report/page/asset";
const fixed = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
const sources = readdirSync("src", { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).replaceAll("\\", "/"));

const hash = createHash("sha256");
for (const name of [...fixed, ...sources].sort()) {
  hash.update(`${name}\0`).update(readFileSync(name)).update("\0");
}
const built = ["page.js", "page.css"].map((name) => readFileSync(join(asset, name), "utf8"));
if (built.some((text) => /<\/(script|style)|<!--/i.test(text))) {
  throw new Error("the built files contain text that would end their element in a page");
}
const size = built.reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0);
if (size > 150_000) throw new Error(`${size} bytes gzipped: more than 150 kB`);
const sums = built.map((text) => createHash("sha256").update(text).digest("hex"));
const seal = { sources: hash.digest("hex"), "page.js": sums[0], "page.css": sums[1], gzipped_bytes: size };
writeFileSync(join(asset, "seal.json"), `${JSON.stringify(seal, null, 1)}\n`);
console.log(`sealed: ${size} bytes gzipped`);
