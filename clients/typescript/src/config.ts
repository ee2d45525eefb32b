// The settings of a client.

import { UsageError } from "./errors.js";
import type { Retries } from "./retry.js";
import { VERSION } from "./version.js";

/** The options of a client. */
export interface ClientOptions {
  /** The URL of the service; by default `AUSPEX_URL` from the environment. */
  baseUrl?: string | undefined;
  /** The public id of an API key (`ak_…`); by default `AUSPEX_KEY`. */
  key?: string | undefined;
  /** Its secret (`sk_…`), which signs requests and is never sent; by default `AUSPEX_SECRET`. */
  secret?: string | undefined;
  /** How many milliseconds one attempt may take; 45,000 by default. A verdict may take 30,000. */
  timeout?: number | undefined;
  /** How many milliseconds a call may take with all its attempts and pauses; 180,000 by default. */
  totalTimeout?: number | undefined;
  /** How often a call is retried, where that is safe; 4 by default. */
  maxRetries?: number | undefined;
  /** The longest `Retry-After` to wait for, in milliseconds; 60,000 by default. With a longer one, the call fails at once. */
  maxRetryAfter?: number | undefined;
  /** Further headers for every request. */
  headers?: Record<string, string> | undefined;
  /** Called after each attempt, for metrics and logs. */
  onAttempt?: ((attempt: AttemptInfo) => void) | undefined;
  /** Another implementation of `fetch`, for proxies or tests. */
  fetch?: typeof fetch | undefined;
}

/** One attempt of a call, as `onAttempt` gets it. It contains no credential and no content. */
export interface AttemptInfo {
  method: string;
  path: string;
  /** 1 for the first. */
  attempt: number;
  /** How many milliseconds it took. */
  elapsed: number;
  /** The HTTP status, if there was a response. */
  status: number | undefined;
  /** What went wrong, if there was none. */
  error: string | undefined;
  requestId: string | undefined;
  /** After how many milliseconds it is retried; undefined if it is not. */
  retryIn: number | undefined;
}

/** The settings of a client, checked. */
export interface Config {
  baseUrl: string;
  key: string;
  timeout: number;
  totalTimeout: number;
  retries: Retries;
  headers: Record<string, string>;
  onAttempt: ((attempt: AttemptInfo) => void) | undefined;
  fetch: typeof fetch;
}

/** Checks the options, and takes those that are missing from the environment. Returns the secret apart, so that nothing shows it. */
export function configure(options: ClientOptions): { config: Config; secret: string } {
  const baseUrl = setting("baseUrl", options.baseUrl, "AUSPEX_URL").replace(/\/+$/, "");
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch {
    throw new UsageError(`baseUrl: ${JSON.stringify(baseUrl)} is no URL`);
  }
  if (!["http:", "https:"].includes(url.protocol) || url.search || url.hash) {
    throw new UsageError(`baseUrl: ${JSON.stringify(baseUrl)} is no http or https URL of a service`);
  }
  if (url.username || url.password) throw new UsageError("baseUrl: it must not contain a password");
  const config: Config = {
    baseUrl,
    key: setting("key", options.key, "AUSPEX_KEY"),
    timeout: positive("timeout", options.timeout ?? 45_000),
    totalTimeout: positive("totalTimeout", options.totalTimeout ?? 180_000),
    retries: {
      limit: notNegative("maxRetries", options.maxRetries ?? 4),
      firstDelayMs: 250,
      maxRetryAfterMs: notNegative("maxRetryAfter", options.maxRetryAfter ?? 60_000),
    },
    headers: { ...options.headers },
    onAttempt: options.onAttempt,
    // Bound: runtimes refuse to call it as a method of something else.
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
  };
  return { config, secret: setting("secret", options.secret, "AUSPEX_SECRET") };
}

/** Checks that a number is above 0. */
export function positive(name: string, value: number): number {
  if (!(value > 0)) throw new UsageError(`${name}: it must be more than 0`);
  return value;
}

/** Checks that a number is 0 or more. */
export function notNegative(name: string, value: number): number {
  if (!(value >= 0)) throw new UsageError(`${name}: it must not be negative`);
  return value;
}

interface Runtime {
  process?: { env?: Record<string, string | undefined>; versions?: { node?: string } };
  Deno?: { version?: { deno?: string } };
  Bun?: { version?: string };
}

const runtime = globalThis as Runtime;

function setting(name: string, given: string | undefined, variable: string): string {
  const value = given ?? environment(variable);
  if (!value) throw new UsageError(`${name}: pass it to the client, or set ${variable}`);
  return value;
}

function environment(variable: string): string | undefined {
  try {
    return runtime.process?.env?.[variable];
  } catch {
    // Deno throws without the permission to read it.
    return undefined;
  }
}

/** What the client says it is. */
export function userAgent(): string {
  const host = runtime.Deno?.version?.deno
    ? ` deno/${runtime.Deno.version.deno}`
    : runtime.Bun?.version
      ? ` bun/${runtime.Bun.version}`
      : runtime.process?.versions?.node
        ? ` node/${runtime.process.versions.node}`
        : "";
  return `auspex-typescript/${VERSION}${host}`;
}
