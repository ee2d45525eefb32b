// Decides whether a call is retried, and after what delay. Pure.

/** The longest delay without a `Retry-After`, in milliseconds. */
export const MAX_DELAY_MS = 10_000;

/** How an attempt failed. */
export interface Failure {
  /** The status of an error response; undefined if there was none. */
  status?: number | undefined;
  /** Whether the request may have reached the service. */
  connected: boolean;
  /** Seconds. */
  retryAfter?: number | undefined;
  eventsRecorded?: boolean | undefined;
}

/** The retry settings of a client. */
export interface Retries {
  limit: number;
  firstDelayMs: number;
  maxRetryAfterMs: number;
}

/** The delay in milliseconds after this many attempts; undefined to give up. `fraction` is random, from 0 to 1. */
export function retryDelay(
  retries: Retries,
  attempts: number,
  repeatable: boolean,
  failure: Failure,
  fraction: number,
): number | undefined {
  if (attempts > retries.limit || !isTransient(failure, repeatable)) return undefined;
  const delay = backoff(retries.firstDelayMs, attempts, fraction);
  if (failure.retryAfter === undefined) return delay;
  const asked = failure.retryAfter * 1000;
  // Not earlier than asked, and not all clients at the same instant.
  return asked > retries.maxRetryAfterMs ? undefined : asked + delay;
}

/** Whether another attempt may help, and does no harm. */
export function isTransient(failure: Failure, repeatable: boolean): boolean {
  // Recorded events: sending them again would result in a conflict at best.
  if (failure.eventsRecorded) return false;
  if (failure.status === undefined) return repeatable || !failure.connected;
  // The request was not processed.
  if (failure.status === 429 || (failure.status === 503 && failure.retryAfter !== undefined)) return true;
  return repeatable && [408, 500, 502, 503, 504].includes(failure.status);
}

/** Doubles with each attempt up to a limit; up to half of it is random. */
export function backoff(firstMs: number, attempts: number, fraction: number): number {
  return Math.min(firstMs * 2 ** Math.min(attempts - 1, 30), MAX_DELAY_MS) * (0.5 + fraction / 2);
}

/** How many seconds a response asks to wait: a number, or a date of HTTP by the service's clock. */
export function parseRetryAfter(headers: Headers): number | undefined {
  const value = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(value)) return Number(value);
  const until = /[a-z]/i.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(until)) return undefined;
  const now = Date.parse(headers.get("date") ?? "");
  return Math.max(0, (until - (Number.isNaN(now) ? Date.now() : now)) / 1000);
}
