// The README: its code is compiled and run from top to bottom, as a reader would.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import * as auspex from "auspex";

const root = fileURLToPath(new URL("../../", import.meta.url));
const readme = readFileSync(join(root, "README.md"), "utf8");

/** The code of a page, as a file. */
function source(page: string, name: string, count: number): string {
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map((found) => found[1] ?? "");
  assert.equal(blocks.length, count);
  const path = join(root, "build", `${name}.mts`);
  writeFileSync(path, blocks.join("\n"));
  return path;
}

test("the code of both READMEs compiles and runs", () => {
  const frontPage = readFileSync(join(root, "..", "..", "README.md"), "utf8");
  const sources = [source(readme, "readme", 10), source(frontPage, "front-page", 1)];
  const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", "nodenext"];
  const options = [compiler, ...strict, "--types", "node", ...sources];
  execFileSync(process.execPath, options, { stdio: "inherit", cwd: root });
  const [printed = "", front = ""] = sources.map((path) =>
    execFileSync(process.execPath, [path.replace(/mts$/, "mjs")], { encoding: "utf8" }),
  );
  // The verdict, the replay, the refused webhook, and the error.
  for (const expected of ["is_scammer 0.", "true\n", "401\n", "404 not_found", "Stories"]) {
    assert.ok(printed.includes(expected), `${expected} is not in: ${printed}`);
  }
  assert.match(front, /signal: 'is_scammer'/);
});

test("the version of the package is one", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  assert.equal(auspex.VERSION, version);
});

test("every class in the README is exported", () => {
  for (const [, name] of readme.matchAll(/`([A-Z]\w+(?:Error|Auspex))`/g)) assert.ok(name && name in auspex, name);
});
