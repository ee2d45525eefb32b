// The TypeScript client of Auspex: typed calls that are signed, retried where that is safe, and fail with a reason.

export type { RequestOptions } from "./caller.js";
export { Auspex, type WaitOptions } from "./client.js";
export type { AttemptInfo, ClientOptions } from "./config.js";
export {
  AbortedError,
  APIConnectionError,
  APIStatusError,
  APITimeoutError,
  AuspexError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  ForbiddenError,
  IngestError,
  NotFoundError,
  PayloadTooLargeError,
  PaymentRequiredError,
  RateLimitError,
  ServerError,
  UnprocessableError,
  UnreadableResponseError,
  UsageError,
  WaitTimeoutError,
  WebhookVerificationError,
} from "./errors.js";
export { Export, type ExportOptions, type ExportRow } from "./exports.js";
export type * from "./generated/operations.js";
export type * from "./generated/records.js";
export { type FailedBatch, Ingester, type IngesterOptions } from "./ingester.js";
export { Pager } from "./paging.js";
export { type ResponseInfo, responseOf } from "./response.js";
export { VERSION } from "./version.js";
export {
  isWebhook,
  TOLERANCE_S,
  type UnknownWebhook,
  type VerifyOptions,
  verifyWebhook,
  type WebhookHeaders,
  type WebhookPayload,
} from "./webhooks.js";
