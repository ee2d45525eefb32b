// Prints what the first load of the console costs and fails above the limit. The first load is everything that index.html names,
// and whatever those scripts import statically.
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const LIMIT_BYTES = 250_000;
const dist = new URL("../dist/", import.meta.url).pathname;

const named = (text, pattern) => [...text.matchAll(pattern)].map((match) => match[1]);
const html = readFileSync(join(dist, "index.html"), "utf8");
const waiting = named(html, /(?:src|href)="\/console\/(assets\/[^"]+\.(?:js|css))"/g);
const first = new Set();
while (waiting.length > 0) {
  const path = waiting.pop();
  if (first.has(path)) continue;
  first.add(path);
  if (!path.endsWith(".js")) continue;
  const script = readFileSync(join(dist, path), "utf8");
  for (const name of named(script, /(?:^|[;}])(?:import|export)(?:[\w*{}\s,$]+from)?\s*["']\.\/([^"']+\.js)["']/g)) {
    waiting.push(`assets/${name}`);
  }
}

const sent = (path) => statSync(join(dist, existsSync(join(dist, `${path}.gz`)) ? `${path}.gz` : path)).size;
let total = 0;
for (const path of [...first].sort((one, other) => sent(other) - sent(one))) {
  total += sent(path);
  console.log(`${(sent(path) / 1000).toFixed(1).padStart(7)} kB  ${path}`);
}
console.log(`${(total / 1000).toFixed(1).padStart(7)} kB  first load, gzip; at most ${LIMIT_BYTES / 1000} kB`);
if (total > LIMIT_BYTES) process.exit(1);
