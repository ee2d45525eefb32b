// The world that the stories run in: clients/testing/world.py has started it.

import { randomBytes } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

import { Auspex, type ClientOptions } from "auspex";

type Place = "service" | "without_analyzer" | "rate_limited" | "lossy" | "silent";

const described = process.env.AUSPEX_TEST_WORLD;
if (!described) throw new Error("run the tests with `make test-clients`, which starts the services");

/** The URLs of the services. */
export const world = JSON.parse(described) as Record<Place, string>;

/** An account: where it is, and its key. */
export interface Account {
  baseUrl: string;
  key: string;
  secret: string;
}

async function post(url: string, body: unknown, token?: string): Promise<Record<string, string>> {
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Record<string, string>;
}

/** Opens an account on one of the services. */
export async function account(place: Place = "service"): Promise<Account> {
  const email = `story-${randomBytes(8).toString("hex")}@example.com`;
  const register = { tenant_name: "Stories", email, password: "seven lamps along the quay" };
  const { token } = await post(`${world[place]}/auth/console/register`, register);
  const made = await post(`${world[place]}/v1/api_keys`, { name: "stories" }, token);
  return { baseUrl: world[place], key: made.key ?? "", secret: made.secret ?? "" };
}

/** A client of a new account. */
export async function connect(options: ClientOptions = {}, place: Place = "service"): Promise<Auspex> {
  return new Auspex({ ...(await account(place)), ...options });
}

/** A delivery as it arrived. */
export interface Arrived {
  headers: IncomingHttpHeaders;
  body: Uint8Array;
}

/** A receiver of webhooks. */
export async function receive(): Promise<{ url: string; next: Promise<Arrived>; close: () => void }> {
  let arrived: (delivery: Arrived) => void;
  const next = new Promise<Arrived>((resolve) => (arrived = resolve));
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      response.writeHead(204).end();
      arrived({ headers: request.headers, body: new Uint8Array(Buffer.concat(parts)) });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/hook`, next, close: () => server.close() };
}
