// A stand-in for the payment provider: it opens sessions, has a page on which one pays, and says what is paid.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

interface Session {
  id: string;
  url: string;
  client_reference_id: string | null;
  payment_status: "paid" | "unpaid";
  amount_total: number;
  currency: string;
  success_url: string;
  cancel_url: string;
}

export class Payments {
  readonly #server: Server;
  readonly #sessions = new Map<string, Session>();
  url = "";

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<Payments> {
    const payments = new Payments();
    await new Promise<void>((resolve) => payments.#server.listen(0, "127.0.0.1", resolve));
    const address = payments.#server.address();
    payments.url = `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}`;
    return payments;
  }

  /** What the service must be started with. */
  get settings(): Record<string, string> {
    return { AUSPEX_STRIPE_SECRET_KEY: "sk_test_console", AUSPEX_STRIPE_WEBHOOK_SECRET: "whsec_console", AUSPEX_STRIPE_API_URL: this.url };
  }

  stop(): Promise<unknown> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? "/", this.url).pathname;
    const id = path.split("/").at(-1) ?? "";
    const session = this.#sessions.get(id);
    if (request.method === "POST" && path === "/v1/checkout/sessions") return json(response, this.#open(new URLSearchParams(await bodyOf(request))));
    if (!session) return json(response, { error: { type: "invalid_request_error", code: "resource_missing" } }, 404);
    if (path.startsWith("/v1/checkout/sessions/")) return json(response, session);
    if (path.startsWith("/paid/")) {
      session.payment_status = "paid";
      response.writeHead(303, { Location: session.success_url.replace("{CHECKOUT_SESSION_ID}", id) }).end();
      return;
    }
    response
      .writeHead(200, { "Content-Type": "text/html; charset=utf-8" })
      .end(`<!doctype html><title>Pay</title><h1>Pay ${session.amount_total / 100} ${session.currency}</h1><a href="/paid/${id}">Pay now</a> <a href="${session.cancel_url}">Back</a>`);
  }

  #open(asked: URLSearchParams): Session {
    const id = `cs_test_${this.#sessions.size + 1}`;
    const of = (end: string) => [...asked].find(([name]) => name.endsWith(end))?.[1] ?? "";
    const session: Session = {
      id,
      url: `${this.url}/pay/${id}`,
      client_reference_id: asked.get("client_reference_id"),
      payment_status: "unpaid",
      amount_total: Number(of("[unit_amount]")),
      currency: of("[currency]"),
      success_url: asked.get("success_url") ?? "",
      cancel_url: asked.get("cancel_url") ?? "",
    };
    this.#sessions.set(id, session);
    return session;
  }
}

const json = (response: ServerResponse, content: unknown, status = 200): void => void response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(content));

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
