// An OpenID Connect issuer of other people's making, as a process of its own: tests/peers/oidc.py.
import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { peer, project } from "./service";

export class Issuer {
  private constructor(
    readonly url: string,
    readonly settings: Record<string, string>,
    readonly process: ChildProcess,
  ) {}

  /** Starts it with one client, which people come back to at the console of this origin. */
  static async start(origin: string): Promise<Issuer> {
    const child = spawn(peer("bin", "python"), ["-B", join(project, "tests", "peers", "oidc.py")], { stdio: ["pipe", "pipe", "inherit"] });
    const greeting = await new Promise<string>((resolve, reject) => {
      createInterface({ input: child.stdout }).once("line", resolve);
      child.once("exit", () => reject(new Error("the issuer ended before it listened")));
    });
    const url = `http://127.0.0.1:${(JSON.parse(greeting) as { port: number }).port}`;
    const answer = await fetch(`${url}/oauth2/clients`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ redirect_uris: [`${origin}/console/oauth/oidc`] }),
    });
    const client = (await answer.json()) as { client_id: string; client_secret: string };
    const settings = { AUSPEX_OIDC_ISSUER: url, AUSPEX_OIDC_CLIENT_ID: client.client_id, AUSPEX_OIDC_CLIENT_SECRET: client.client_secret, AUSPEX_OIDC_NAME: "Acme" };
    return new Issuer(url, settings, child);
  }

  /** Makes a person, or changes what is known of them. */
  async person(subject: string, claims: Record<string, unknown>): Promise<void> {
    const answer = await fetch(`${this.url}/users/${subject}`, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify(claims) });
    if (answer.status !== 204) throw new Error(`the issuer answered ${answer.status}`);
  }

  stop(): void {
    this.process.stdin?.end();
  }
}
