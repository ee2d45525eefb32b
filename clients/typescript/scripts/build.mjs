// Compiles the package as ES modules and as CommonJS, each with its types.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");

rmSync(join(root, "dist"), { recursive: true, force: true });
for (const [project, folder, type] of [
  ["tsconfig.json", "esm", "module"],
  ["tsconfig.cjs.json", "cjs", "commonjs"],
]) {
  execFileSync(process.execPath, [compiler, "--project", join(root, project)], { stdio: "inherit" });
  // Tells Node and compilers what the files of the folder are, whatever the package is.
  writeFileSync(join(root, "dist", folder, "package.json"), `${JSON.stringify({ type, sideEffects: false })}\n`);
}
