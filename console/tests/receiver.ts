// A server that webhooks are delivered to.
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
}

/** A receiver that refuses everything for good until it is told to take it. */
export async function receiver(): Promise<{ server: Server; url: string; received: Received[]; respondWith: (status: number) => void }> {
  const received: Received[] = [];
  let status = 410;
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      received.push({ headers: request.headers, body });
      response.writeHead(status).end(status === 410 ? "no longer here" : "");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  return { server, url, received, respondWith: (next) => (status = next) };
}
