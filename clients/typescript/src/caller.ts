// One call: its attempts, and how its response is read.

import { type AttemptInfo, type ClientOptions, type Config, configure, userAgent } from "./config.js";
import { AbortedError, APIConnectionError, APITimeoutError, type AuspexError, errorOf, UnreadableResponseError, UsageError } from "./errors.js";
import { Pager } from "./paging.js";
import { keepResponse } from "./response.js";
import { type Failure, parseRetryAfter, retryDelay } from "./retry.js";
import { hmacKey, signToken, utf8 } from "./signing.js";

/** The options of one call. */
export interface RequestOptions {
  /** Aborts the call. */
  signal?: AbortSignal | undefined;
  /** How many milliseconds one attempt may take. */
  timeout?: number | undefined;
  /** How many milliseconds the call may take with all its attempts and pauses. */
  totalTimeout?: number | undefined;
  /** How often it is retried, where that is safe. */
  maxRetries?: number | undefined;
  /** Further headers. */
  headers?: Record<string, string> | undefined;
  /** For ingest: however often a request with this key is sent, its events are recorded once. Made by default. */
  idempotencyKey?: string | undefined;
}

/** A call to be made. */
export interface Call {
  method: string;
  /** The segments of the path, not escaped. */
  path: string[];
  query?: object;
  /** Anything that can be written as JSON; a string is JSON already. */
  body?: unknown;
  /** Whether it takes an idempotency key. */
  idempotent?: boolean;
  /** Whether sending it twice has the same effect as once. */
  repeatable: boolean;
  /** Whether the response is a text. */
  text?: boolean;
}

/** What came of an attempt. */
type Outcome =
  | { response: Response; body: string }
  | { error: AuspexError; connected: boolean; aborted: boolean };

/** Makes calls. */
export abstract class Caller {
  /** @internal */
  readonly config: Config;
  // Private fields of JavaScript: nothing can show them.
  readonly #secret: string;
  #key: Promise<CryptoKey> | undefined;

  constructor(options: ClientOptions = {}) {
    const { config, secret } = configure(options);
    this.config = config;
    this.#secret = secret;
    // Its functions are of no use to who looks at the client, and hide the rest.
    Object.defineProperty(this, "config", { enumerable: false });
  }

  /** @internal */
  pages<Page extends object, Item>(call: Call & { items: string }, options?: RequestOptions): Pager<Page, Item> {
    return new Pager((query) => this.call<Page>({ ...call, query }, options), call.query ?? {}, call.items);
  }

  /** @internal Makes a call, retries it while that may help, and reads the response. */
  async call<T>(call: Call, options: RequestOptions = {}): Promise<T> {
    const { response, body } = await this.#attempts(call, options);
    // 404: a deletion that found nothing.
    if (response.status === 404 || (response.status !== 200 && body === "")) return undefined as T;
    if (call.text) return body as T;
    let parsed: unknown;
    try {
      parsed = JSON.parse(body);
    } catch {
      const requestId = response.headers.get("x-request-id") ?? undefined;
      const message = `the response with status ${response.status} is no JSON of the service`;
      throw new UnreadableResponseError(message, { status: response.status, requestId });
    }
    keepResponse(parsed, response);
    return parsed as T;
  }

  async #attempts(call: Call, options: RequestOptions): Promise<{ response: Response; body: string }> {
    const { config } = this;
    const request = encode(config, call, options);
    const retries = { ...config.retries, limit: options.maxRetries ?? config.retries.limit };
    const deadline = Date.now() + (options.totalTimeout ?? config.totalTimeout);
    let uncertain = false;
    for (let attempt = 1; ; attempt += 1) {
      const started = Date.now();
      const timeout = Math.min(options.timeout ?? config.timeout, Math.max(deadline - started, 1));
      const outcome = await this.#attempt(call, request, timeout, options.signal);
      if ("response" in outcome && isSuccess(outcome.response.status, call.method, uncertain)) {
        this.#report(call, attempt, started, outcome, undefined);
        return outcome;
      }
      const { failure, error } = failed(outcome);
      uncertain ||= failure.status === undefined && failure.connected;
      let delay = retryDelay(retries, attempt, call.repeatable, failure, Math.random());
      if (delay !== undefined && Date.now() + delay >= deadline) delay = undefined;
      if ("aborted" in outcome && outcome.aborted) delay = undefined;
      this.#report(call, attempt, started, outcome, delay);
      if (delay === undefined) throw error;
      await pause(delay, options.signal);
    }
  }

  async #attempt(call: Call, request: Encoded, timeout: number, signal: AbortSignal | undefined): Promise<Outcome> {
    const controller = new AbortController();
    const abort = () => controller.abort();
    const timer = setTimeout(abort, timeout);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const response = await this.#fetch(call, request, controller.signal, signal);
      return { response, body: await response.text() };
    } catch (cause) {
      return broken(cause, timeout, controller.signal.aborted, signal?.aborted ?? false);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  /**
   * @internal Makes one attempt, and yields the body piece by piece; `timeout` is for each piece. Throws a
   * {@link StreamFailure}.
   */
  async *stream(call: Call, options: RequestOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const request = encode(this.config, call, options);
    const timeout = options.timeout ?? this.config.timeout;
    const { signal } = options;
    const controller = new AbortController();
    const abort = () => controller.abort();
    let timer = setTimeout(abort, timeout);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const response = await this.#fetch(call, request, controller.signal, signal);
      if (response.status !== 200) throw new StreamFailure(failed({ response, body: await response.text() }));
      const reader = response.body?.getReader();
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
        clearTimeout(timer);
        yield part.value;
        // Not while the program works on the rows.
        timer = setTimeout(abort, timeout);
      }
    } catch (cause) {
      if (cause instanceof StreamFailure) throw cause;
      const outcome = broken(cause, timeout, controller.signal.aborted, signal?.aborted ?? false);
      throw new StreamFailure({ ...failed(outcome), aborted: signal?.aborted ?? false });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      // Who stops reading needs no more of it.
      controller.abort();
    }
  }

  async #fetch(call: Call, request: Encoded, over: AbortSignal, signal: AbortSignal | undefined): Promise<Response> {
    if (signal?.aborted) throw new AbortedError("the call was aborted");
    this.#key ??= hmacKey(utf8(this.#secret));
    const token = await signToken(this.config.key, await this.#key, Date.now(), call.method, request.decodedPath);
    return this.config.fetch(request.url, {
      method: call.method,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
      // A token is valid for one path of one service, and must not be sent anywhere else.
      redirect: "manual",
      signal: over,
      ...(request.body === undefined ? {} : { body: request.body }),
    });
  }

  #report(call: Call, attempt: number, started: number, outcome: Outcome, retryIn: number | undefined): void {
    const hasResponse = "response" in outcome;
    const info: AttemptInfo = {
      method: call.method,
      path: `/${call.path.join("/")}`,
      attempt,
      elapsed: Date.now() - started,
      status: hasResponse ? outcome.response.status : undefined,
      error: hasResponse ? undefined : outcome.error.message,
      requestId: hasResponse ? (outcome.response.headers.get("x-request-id") ?? undefined) : undefined,
      retryIn,
    };
    this.config.onAttempt?.(info);
  }
}

/** @internal How a stream ended before its end. */
export class StreamFailure extends Error {
  readonly failure: Failure;
  readonly error: AuspexError;
  readonly aborted: boolean;

  constructor({ failure, error, aborted = false }: { failure: Failure; error: AuspexError; aborted?: boolean }) {
    super(error.message);
    this.failure = failure;
    this.error = error;
    this.aborted = aborted;
  }
}

interface Encoded {
  url: string;
  decodedPath: string;
  headers: Record<string, string>;
  body: string | undefined;
}

function encode(config: Config, call: Call, options: RequestOptions): Encoded {
  if (call.path.some((segment) => ["", ".", ".."].includes(segment))) {
    // URL normalization removes such segments, escaped or not.
    throw new UsageError("an id that is empty, `.` or `..` cannot be part of a path");
  }
  const path = call.path.map(escapeText).join("/");
  const pairs = Object.entries(call.query ?? {})
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${escapeText(name)}=${escapeText(queryValue(value))}`);
  const body = encodeBody(call);
  const headers: Record<string, string> = {
    accept: "application/json",
    "user-agent": userAgent(),
    ...config.headers,
    ...options.headers,
  };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (call.idempotent) headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();
  return {
    url: `${config.baseUrl}/${path}${pairs.length > 0 ? `?${pairs.join("&")}` : ""}`,
    decodedPath: `/${call.path.join("/")}`,
    headers,
    body,
  };
}

function encodeBody(call: Call): string | undefined {
  if (call.body === undefined || typeof call.body === "string") return call.body;
  try {
    return JSON.stringify(call.body);
  } catch (cause) {
    throw new UsageError(`the request cannot be written as JSON: ${String(cause)}`);
  }
}

function escapeText(text: string): string {
  try {
    return encodeURIComponent(text).replace(/[!'()*]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`);
  } catch {
    throw new UsageError("a text of the request is not valid Unicode");
  }
}

function queryValue(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  return Array.isArray(value) ? value.map(queryValue).join(",") : String(value);
}

function isSuccess(status: number, method: string, uncertain: boolean): boolean {
  // 404: an earlier attempt deleted it, but its response was lost.
  return (status >= 200 && status < 300) || (status === 404 && method === "DELETE" && uncertain);
}

function failed(outcome: Outcome): { failure: Failure; error: AuspexError } {
  if (!("response" in outcome)) return { failure: { connected: outcome.connected }, error: outcome.error };
  const { response, body } = outcome;
  const retryAfter = parseRetryAfter(response.headers);
  const eventsRecorded = response.headers.get("events-recorded") === "true";
  const requestId = response.headers.get("x-request-id") ?? undefined;
  return {
    failure: { status: response.status, connected: true, retryAfter, eventsRecorded },
    error: errorOf(response.status, body, { retryAfter, eventsRecorded, requestId }),
  };
}

function broken(cause: unknown, timeout: number, isOver: boolean, aborted: boolean): Outcome {
  if (aborted) return { error: new AbortedError("the call was aborted"), connected: true, aborted };
  if (isOver) {
    const message = `the service did not respond within ${timeout} ms`;
    return { error: new APITimeoutError(message), connected: true, aborted };
  }
  const connected = !isUnconnected(cause);
  const said = connected ? "the connection ended before the response" : "cannot connect";
  return { error: new APIConnectionError(`${said}: ${explain(cause)}`, { cause }), connected, aborted };
}

/** Whether the request cannot have reached the service. Each runtime says so in its own way; in doubt, it can. */
function isUnconnected(cause: unknown): boolean {
  const codes = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|FailedToOpenSocket)$/;
  const messages = /connection refused|tcp connect error|dns error|unable to connect/i;
  for (let error = cause; error instanceof Error; error = error.cause) {
    const { code } = error as { code?: unknown };
    if ((typeof code === "string" && codes.test(code)) || messages.test(error.message)) return true;
    if (error instanceof AggregateError && error.errors.length > 0) return error.errors.every(isUnconnected);
  }
  return false;
}

function explain(cause: unknown): string {
  const texts: string[] = [];
  for (let error = cause; error instanceof Error; error = error.cause) {
    if (error.message) texts.push(error.message);
  }
  return texts.join(": ") || String(cause);
}

/** Waits for this many milliseconds, or until the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer);
      reject(new AbortedError("the call was aborted"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    if (signal?.aborted) aborted();
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
