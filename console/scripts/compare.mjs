// Checks that console/dist is what the sources build to: builds into a folder beside it and compares every file. Compressed
// copies are compared by what they expand to, since zlib may differ between versions of Node.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const root = new URL("..", import.meta.url).pathname;
const fresh = join(root, ".fresh");
execFileSync("npx", ["vite", "build", "--outDir", fresh, "--emptyOutDir", "--logLevel", "warn"], { cwd: root, stdio: "inherit" });

const list = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
const committed = join(root, "dist");
const problems = [];
const built = list(fresh);
for (const path of built) {
  const bytes = readFileSync(join(fresh, path));
  const expectSame = (name, read) => {
    try {
      if (!read(readFileSync(join(committed, name))).equals(bytes)) problems.push(`${name}: differs from the build`);
    } catch (error) {
      problems.push(`${name}: ${error.code === "ENOENT" ? "missing" : error.message}`);
    }
  };
  expectSame(path, (found) => found);
  if (bytes.length >= 256 && /\.(html|js|css|svg|json|txt)$/.test(path)) {
    expectSame(`${path}.br`, brotliDecompressSync);
    expectSame(`${path}.gz`, gunzipSync);
  }
}
for (const path of list(committed)) {
  if (!built.includes(path.replace(/\.(br|gz)$/, ""))) problems.push(`${path}: the build does not make it`);
}
if (problems.length > 0) {
  console.error(`console/dist is not what the sources build to; run \`npm run build\` and commit it:\n${problems.join("\n")}`);
  process.exit(1);
}
console.log(`console/dist is what the sources build to (${built.length} files)`);
