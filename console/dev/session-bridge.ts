// For development only, until the service has cookie sessions and serves the console: answers with a cookie where the service
// answers with a token, and turns the cookie into the token again. Nothing of it is in the build. Delete it once the service does
// the same by itself.
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Connect, Plugin } from "vite";

const COOKIE = "auspex";
const POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

function tokenOf(request: IncomingMessage): string | undefined {
  return request.headers.cookie?.match(/(?:^|; )auspex=([^;]+)/)?.[1];
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Keeps the token of an answer in a cookie, and takes it out of the answer. */
function setCookie(response: ServerResponse, text: string): string {
  const { token, ...rest } = JSON.parse(text) as { token?: string };
  if (token) response.setHeader("Set-Cookie", `${COOKIE}=${token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400`);
  return JSON.stringify(rest);
}

function bridge(service: string): Connect.NextHandleFunction {
  return (request, response, next) => {
    const path = request.url ?? "/";
    if (!/^\/(v1|auth|openapi|healthz|readyz|docs)(\/|\.|$|\?)/.test(path)) {
      if (process.env.NODE_ENV === "production") response.setHeader("Content-Security-Policy", POLICY);
      next();
      return;
    }
    void (async () => {
      const headers = new Headers();
      for (const name of ["content-type", "accept", "idempotency-key", "user-agent"]) {
        const value = request.headers[name];
        if (typeof value === "string") headers.set(name, value);
      }
      const token = tokenOf(request);
      if (token) headers.set("authorization", `Bearer ${token}`);
      const body = request.method === "GET" ? undefined : await bodyOf(request);
      try {
        const answer = await fetch(service + path, { method: request.method, headers, body: body?.length ? new Uint8Array(body) : undefined });
        const text = await answer.text();
        response.statusCode = answer.status;
        for (const name of ["content-type", "x-request-id", "retry-after", "x-cache"]) {
          const value = answer.headers.get(name);
          if (value) response.setHeader(name, value);
        }
        if (path.startsWith("/auth/console/state") && answer.status === 404) {
          response.statusCode = 200;
          response.setHeader("content-type", "application/json");
          response.end(JSON.stringify({ empty: false }));
        } else if (answer.ok && request.headers["x-auspex-session"] === "cookie" && text.includes('"token"')) {
          response.end(setCookie(response, text));
        } else {
          if (path.startsWith("/auth/console/logout")) response.setHeader("Set-Cookie", `${COOKIE}=; Path=/; Max-Age=0`);
          response.end(text);
        }
      } catch {
        response.statusCode = 503;
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ error: { code: "not_ready", message: "the service cannot be reached" } }));
      }
    })();
  };
}

export function sessionBridge(service: string): Plugin {
  return {
    name: "auspex-session-bridge",
    configureServer: (server) => void server.middlewares.use(bridge(service)),
    configurePreviewServer: (server) => void server.middlewares.use(bridge(service)),
  };
}
