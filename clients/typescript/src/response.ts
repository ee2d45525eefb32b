// What is known about a response beside its body.

/** Status and headers of a response. */
export interface ResponseInfo {
  status: number;
  headers: Headers;
  /** The id of the request in the service's log. */
  requestId: string | undefined;
  /** Whether an earlier request with the same idempotency key had recorded the events. */
  replayed: boolean;
}

const known = new WeakMap<object, ResponseInfo>();

/** Keeps the response of a record. */
export function keepResponse(record: unknown, response: Response): void {
  if (typeof record !== "object" || record === null) return;
  known.set(record, {
    status: response.status,
    headers: response.headers,
    requestId: response.headers.get("x-request-id") ?? undefined,
    replayed: response.headers.get("idempotent-replayed") === "true",
  });
}

/** Status and headers of the response that a call returned; undefined for anything else. */
export function responseOf(record: object): ResponseInfo | undefined {
  return known.get(record);
}
