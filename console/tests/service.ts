// A real service on a database of its own, for the tests of one worker.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve as resolvePath } from "node:path";

const root = new URL("..", import.meta.url).pathname;
const START_MS = 30_000;

/** The folder of the whole project. */
export const project = resolvePath(root, "..");

/** A file of the peers that tests talk to. */
export function peer(...path: string[]): string {
  const found = join(project, "target", "peers", ...path);
  if (!existsSync(found)) throw new Error(`${found} is missing: run scripts/test-peers`);
  return found;
}

/** The service, which is its command line, too. */
export function binary(): string {
  const found = resolvePath(process.env.AUSPEX_BIN ?? resolvePath(project, process.env.CARGO_TARGET_DIR ?? "target", "debug", "auspex"));
  if (!existsSync(found)) throw new Error(`${found} is missing: run \`cargo build --bin auspex\`, or set AUSPEX_BIN`);
  return found;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

async function until(url: string, child: ChildProcess, output: () => string): Promise<void> {
  const end = Date.now() + START_MS;
  while (Date.now() < end) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}:\n${output()}`);
    const answer = await fetch(url).catch(() => undefined);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${url} does not answer:\n${output()}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

export class Service {
  #children: ChildProcess[] = [];
  readonly #data = mkdtempSync(join(tmpdir(), "auspex-console-"));
  /** Where a browser finds the console. */
  origin = "";
  /** Starts the service itself, so many seconds ahead of the clock. */
  #serve: (aheadSeconds: number) => Promise<void> = async () => undefined;

  /** `more` are settings that depend on where the console is served, such as those of a provider that sends people back to it. */
  static async start(settings: Record<string, string> = {}, more?: (origin: string) => Promise<Record<string, string>>): Promise<Service> {
    const service = new Service();
    const port = await freePort();
    // A name, not an address: passkeys need one.
    const direct = `http://localhost:${port}`;
    const front = await freePort();
    const served = process.env.AUSPEX_CONSOLE_BY_VITE ? `http://localhost:${front}` : direct;
    const env = {
      AUSPEX_LISTEN: `127.0.0.1:${port}`,
      AUSPEX_PUBLIC_URL: served,
      AUSPEX_DATA_DIR: service.#data,
      AUSPEX_DEBOUNCE_MS: "50",
      AUSPEX_LOG: "warn",
      ...settings,
      ...(await more?.(served)),
    };
    service.#serve = (ahead) => service.#run(binary(), ahead > 0 ? ["serve", "--clock-ahead-s", String(ahead)] : ["serve"], `${direct}/readyz`, env);
    await service.#serve(0);
    // Without the console in the binary, Vite serves the same files with the same policy.
    if (process.env.AUSPEX_CONSOLE_BY_VITE) {
      const vite = join(root, "node_modules", ".bin", "vite");
      await service.#run(vite, ["preview", "--host", "127.0.0.1", "--port", String(front), "--strictPort"], `${served}/console/`, { AUSPEX_URL: direct });
    }
    service.origin = served;
    return service;
  }

  async #run(command: string, args: string[], ready: string, env: Record<string, string>): Promise<void> {
    const child = spawn(command, args, { cwd: root, env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-4000);
    };
    child.stdout?.on("data", keep);
    child.stderr?.on("data", keep);
    this.#children.push(child);
    await until(ready, child, () => output);
  }

  /** Starts again on the same data, as if so many hours had passed since the clock's time. Only development builds can. */
  async startAgainAhead(hours: number): Promise<void> {
    const [serving, ...others] = this.#children;
    if (serving) await end(serving);
    this.#children = [];
    await this.#serve(hours * 3600);
    this.#children.push(...others);
  }

  /** The bodies of all mails that were sent to somebody, oldest first, as plain text. */
  mails(to: string): string[] {
    const folder = join(this.#data, "mail");
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.endsWith(".eml"))
      .sort()
      .map((name) => readFileSync(join(folder, name), "utf8"))
      .filter((mail) => mail.toLowerCase().includes(`to: ${to.toLowerCase()}`))
      .map((mail) => mail.replace(/=\r?\n/g, "").replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))));
  }

  async stop(): Promise<void> {
    for (const child of this.#children.toReversed()) await end(child);
    rmSync(this.#data, { recursive: true, force: true });
  }
}
