// The one error that every request of the console can end with.

/** Why a request failed, in words for the person who made it. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    /** The HTTP status; 0 when there was no response. */
    readonly status: number,
    /** The stable code of the error envelope; `unreachable` when there was no response. */
    readonly code: string,
    message: string,
    /** `X-Request-Id`, by which an operator finds the request in the log. */
    readonly requestId?: string,
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
  }

  /** The field that the message starts with (`email: not an email address`), if it names one. */
  get field(): string | undefined {
    return this.message.match(FIELD)?.[1];
  }

  /** The message without the field's name, as it is shown beside the field. */
  get detail(): string {
    return this.message.replace(FIELD, "");
  }

  /** The service cannot be reached or takes no requests now; the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 429;
  }
}

const FIELD = /^([a-z][a-z0-9_]*(?:\[\d+\]|\.[a-z0-9_]+)*): /;

/** What a response that is not a success says. */
export async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id") ?? undefined;
  const retryAfter = Number(response.headers.get("retry-after")) || undefined;
  const body = (await response.clone().json().catch(() => undefined)) as { error?: { code?: string; message?: string } } | undefined;
  const code = body?.error?.code ?? "internal_error";
  const message = body?.error?.message ?? `the service answered ${response.status} without saying why`;
  return new ApiError(response.status, code, message, requestId, retryAfter);
}

export const unreachable = (): ApiError => new ApiError(0, "unreachable", "the service cannot be reached; check your connection");

/** A sentence of anything that was thrown. */
export function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
