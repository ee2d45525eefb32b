// The errors of the client. All of them are an `AuspexError`.

import type { FailedBatch } from "./ingester.js";

/** What is known about a failure. */
export interface ErrorDetails {
  status?: number | undefined;
  code?: string | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  eventsRecorded?: boolean | undefined;
  cause?: unknown;
}

/** Why a call failed. What is not known about a failure is `undefined`. */
export class AuspexError extends Error {
  /** The HTTP status, if there was a response. */
  readonly status: number | undefined;
  /** A stable code for programs, such as `bad_request` or `payment_required`. */
  readonly code: string | undefined;
  /** The id of the request in the service's log. */
  readonly requestId: string | undefined;
  /** How many seconds the service asks to wait before the next attempt. */
  readonly retryAfter: number | undefined;
  /** Whether the events of the request were recorded despite the error. If so, do not send them again. */
  readonly eventsRecorded: boolean;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.status = details.status;
    this.code = details.code;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.eventsRecorded = details.eventsRecorded ?? false;
  }
}

/** The client or the call is invalid; nothing was sent. */
export class UsageError extends AuspexError {}

/** The service could not be reached, or the connection ended before the response. It may have processed the request. */
export class APIConnectionError extends AuspexError {}

/** The service did not respond in time. It may have processed the request. */
export class APITimeoutError extends APIConnectionError {}

/** The call was aborted by its `AbortSignal`. The service may have processed the request. */
export class AbortedError extends AuspexError {}

/** The response could not be parsed: it is from something else, or from another version of the service. */
export class UnreadableResponseError extends AuspexError {}

/** The service responded with an error. Each common status has a class of its own. */
export class APIStatusError extends AuspexError {}

/** 400: the request is invalid; the message names the field. */
export class BadRequestError extends APIStatusError {}

/** 401: key, secret or clock are wrong, or the key is revoked; the service does not say which. */
export class AuthenticationError extends APIStatusError {}

/** 402: the balance is empty; nothing was recorded. */
export class PaymentRequiredError extends APIStatusError {}

/** 403: the credential may not do this, or the account is suspended or out of storage. */
export class ForbiddenError extends APIStatusError {}

/** 404: it does not exist, or belongs to another account. */
export class NotFoundError extends APIStatusError {}

/** 409: it conflicts with the current state. Of a repeated verdict: its events were recorded by the first request. */
export class ConflictError extends APIStatusError {}

/** 413: the body exceeds 4 MiB; send fewer events at once. */
export class PayloadTooLargeError extends APIStatusError {}

/** 422: the idempotency key was used for another object. */
export class UnprocessableError extends APIStatusError {}

/** 429: too many requests; `retryAfter` says how long to wait. */
export class RateLimitError extends APIStatusError {}

/** 5xx: the service, its analyzer or its database failed. */
export class ServerError extends APIStatusError {}

/** The answers did not arrive in time. */
export class WaitTimeoutError extends AuspexError {
  /** The keys of the signals that have no answer. */
  readonly pending: string[];

  constructor(message: string, pending: string[]) {
    super(message);
    this.pending = pending;
  }
}

/** Events that an ingester could not deliver. `close` rejects with it, unless the ingester has `onError`. */
export class IngestError extends AuspexError {
  /** How many events were not delivered. */
  readonly failedEvents: number;
  /** The events themselves: up to `maxPendingEvents` that failed before the ingester was closed, and all that were left then. */
  readonly batches: readonly FailedBatch[];

  constructor(message: string, failedEvents: number, cause: unknown, batches: readonly FailedBatch[] = []) {
    super(message, { cause });
    this.failedEvents = failedEvents;
    this.batches = batches;
  }
}

/** A delivery must not be trusted; the message says why. */
export class WebhookVerificationError extends AuspexError {}

const BY_STATUS: Record<number, typeof APIStatusError> = {
  400: BadRequestError,
  401: AuthenticationError,
  402: PaymentRequiredError,
  403: ForbiddenError,
  404: NotFoundError,
  409: ConflictError,
  413: PayloadTooLargeError,
  422: UnprocessableError,
  429: RateLimitError,
};

/** The error of a response. A body in another format comes from something in between, such as a proxy. */
export function errorOf(status: number, body: string, details: ErrorDetails): APIStatusError {
  let code: string | undefined;
  let message = `something other than the service answered with status ${status}`;
  try {
    const parsed = (JSON.parse(body) as { error: { code: unknown; message: unknown } }).error;
    if (typeof parsed.code === "string" && typeof parsed.message === "string") {
      ({ code, message } = parsed as { code: string; message: string });
    }
  } catch {
    // Not from the service.
  }
  const Kind = BY_STATUS[status] ?? (status >= 500 ? ServerError : APIStatusError);
  return new Kind(message, { ...details, status, code });
}
