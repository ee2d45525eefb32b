// The client in the runtime of workers: the built package, as it is published, in a real workerd.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { account } from "./world.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
// A delivery with a fixed time and secret, signed in both ways.
const DELIVERY = {
  body: '{"event":"analysis.completed"}',
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  at: 1_700_000_000,
};

/** How long the worker may take, from its start to its response. */
const DEADLINE_MS = 60_000;
/** On the machine of CI nothing is left out. */
const LEAVES_NOTHING_OUT = process.env["CI"] === "true" && process.platform === "linux" && process.arch === "x64";

/** The worker. What it finds is its response. */
const WORKER = `
import { Auspex, NotFoundError, verifyWebhook } from "./auspex/index.js";

async function signed({ body, secret, at }) {
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(at + "." + body));
  const hex = [...new Uint8Array(mac)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { "x-webhook-timestamp": String(at), "x-webhook-signature": "sha256=" + hex };
}

export default {
  async fetch(request) {
    const { account, delivery } = await request.json();
    const client = new Auspex(account);
    const verdict = await client.ingestEvents("käufer/1 ?#&", { events: [{ type: "message", content: "Gift cards only" }], wait: true });
    await using ingester = client.ingester();
    for (let number = 0; number < 5; number += 1) await ingester.send("batched", { type: "event", name: "sale" });
    await ingester.flush();
    const headers = await signed(delivery);
    const payload = await verifyWebhook(delivery.body, new Headers(headers), delivery.secret, { now: delivery.at });
    const forged = verifyWebhook(delivery.body + " ", new Headers(headers), delivery.secret, { now: delivery.at });
    return Response.json({
      answers: verdict.answers.map((answer) => answer.signal).sort(),
      batched: (await client.getObject("batched")).event_count,
      missing: await client.getObject("nobody").catch((error) => error instanceof NotFoundError && error.code),
      event: payload.event,
      forged: await forged.catch((error) => error.constructor.name),
      node: typeof process,
    });
  },
};
`;

/** The program of workerd; undefined where npm has none for this machine. */
function program(): string | undefined {
  try {
    const found = createRequire(import.meta.url).resolve("@cloudflare/workerd-linux-64/bin/workerd");
    return spawnSync(found, ["--version"], { timeout: DEADLINE_MS }).status === 0 ? found : undefined;
  } catch {
    return undefined;
  }
}

/** The files of the package below this folder, with their names in the worker. */
function modules(folder: string): [string, string][] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".js"));
  return files.map((name) => [`auspex/${name}`, join(folder, name)]);
}

/** Writes the configuration of a worker that reaches services on this machine. */
function configure(folder: string): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "worker.js"), WORKER);
  const all: [string, string][] = [["worker.js", join(folder, "worker.js")], ...modules(join(root, "dist", "esm"))];
  const embedded = all.map(([name, path]) => `(name = "${name}", esModule = embed "${relative(folder, path)}")`);
  const config = join(folder, "config.capnp");
  writeFileSync(
    config,
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (compatibilityDate = "2026-01-01", modules = [${embedded.join(", ")}])),
    (name = "internet", network = (allow = ["public", "private", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
`,
  );
  return config;
}

/** The port on which a worker listens, as it says itself. */
async function portOf(worker: ChildProcess): Promise<number> {
  let said = "";
  for await (const part of worker.stdio[3] as AsyncIterable<Buffer>) {
    said += part.toString();
    for (const line of said.split("\n").slice(0, -1)) {
      const message = JSON.parse(line) as { event: string; port?: number };
      if (message.event === "listen" && message.port) return message.port;
    }
  }
  throw new Error("the worker ended before it listened");
}

test("it signs, sends and verifies in workerd", async (context) => {
  const workerd = program();
  if (!workerd) {
    assert.ok(!LEAVES_NOTHING_OUT, "workerd does not run, and CI leaves nothing out");
    return context.skip("npm has no workerd for this machine");
  }
  const config = configure(join(root, "build", "worker"));
  const worker = spawn(workerd, ["serve", "--control-fd=3", config], { stdio: ["ignore", "inherit", "inherit", "pipe"] });
  // Whatever waits for it then fails.
  const deadline = setTimeout(() => worker.kill("SIGKILL"), DEADLINE_MS);
  try {
    const body = JSON.stringify({ account: await account(), delivery: DELIVERY });
    const response = await fetch(`http://127.0.0.1:${await portOf(worker)}/`, { method: "POST", body });
    assert.deepEqual(await response.json(), {
      answers: ["buyer_intent", "is_scammer", "trust_score"],
      batched: 5,
      missing: "not_found",
      event: "analysis.completed",
      forged: "WebhookVerificationError",
      node: "undefined",
    });
  } finally {
    clearTimeout(deadline);
    worker.kill("SIGKILL");
  }
});
