// Runs the snippets of First steps as a person would who has installed the client of the language.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import ts from "typescript";

import { binary, peer, project } from "./service";

const run = promisify(execFile);
const LIMIT_MS = 60_000;

const javascript = (code: string): string =>
  ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } }).outputText;

/** The TypeScript client, where Node finds it from this folder. */
function installTypescriptClient(folder: string): void {
  const source = join(project, "clients", "typescript");
  const target = join(folder, "node_modules", "auspex");
  for (const name of readdirSync(join(source, "src"), { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts")) continue;
    const path = join(target, "dist", "esm", name.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, javascript(readFileSync(join(source, "src", name), "utf8")));
  }
  cpSync(join(source, "package.json"), join(target, "package.json"));
}

/** Runs a snippet and returns what it printed. */
export async function runSnippet(language: string, code: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "auspex-snippet-"));
  const save = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const env: Record<string, string> = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, NO_COLOR: "1" };
  const go = async (command: string, file: string) => (await run(command, [file], { env, cwd: folder, timeout: LIMIT_MS })).stdout;
  try {
    switch (language) {
      case "Command line":
        symlinkSync(binary(), join(folder, "auspex"));
        return await go("bash", save("first-event.sh", `set -e\n${code}`));
      case "Python":
        env.PYTHONPATH = join(project, "clients", "python", "src");
        env.PYTHONDONTWRITEBYTECODE = "1";
        return await go(peer("bin", "python"), save("first_event.py", code));
      case "TypeScript":
        installTypescriptClient(folder);
        return await go("node", save("first-event.mjs", javascript(code)));
      default:
        throw new Error(`no such language: ${language}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
