// Verifies that a webhook delivery is from the service, unchanged and recent.

import { UsageError, WebhookVerificationError } from "./errors.js";
import { WEBHOOK_EVENTS, type WebhookEvents } from "./generated/records.js";
import { decodeBase64, hmacKey, utf8 } from "./signing.js";

/** The usual tolerance between a delivery's timestamp and the receiver's clock, in seconds. */
export const TOLERANCE_S = 300;

const UNSIGNED = "the delivery is not signed";
const FORGED = "the signature of the delivery does not match: its secret is another one, or its body was changed";

/** The payload of a delivery of an event that this version of the client does not know. */
export interface UnknownWebhook {
  event: string;
  [field: string]: unknown;
}

/** The payload of a delivery. Its `event` tells the known ones apart: see {@link isWebhook}. */
export type WebhookPayload = WebhookEvents[keyof WebhookEvents] | UnknownWebhook;

/** The headers of a request: those of `fetch`, of Node, or pairs. */
export type WebhookHeaders =
  | Headers
  | Record<string, string | string[] | undefined>
  | Iterable<readonly [string, string]>;

/** How a delivery is verified. */
export interface VerifyOptions {
  /** How many seconds its timestamp may be off; 300 by default. */
  tolerance?: number;
  /** The time in Unix seconds; by default, this machine's. */
  now?: number;
}

/**
 * Verifies the signature of a delivery over its raw body, and returns the payload.
 *
 * The service signs each delivery twice: with the headers of Standard Webhooks (`webhook-id`, `webhook-timestamp`,
 * `webhook-signature`) and with its own (`X-Webhook-Timestamp`, `X-Webhook-Signature`). One valid signature is enough.
 *
 * @param body The body exactly as it was received, before anything parses it.
 * @param headers The headers of the request, in any case.
 * @param secret The secret of the endpoint (`whsec_…`); while it is being rotated, both.
 * @throws {@link WebhookVerificationError} It must not be trusted: it is unsigned, forged, changed or too old.
 */
export async function verifyWebhook(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<WebhookPayload> {
  const secrets = typeof secret === "string" ? [secret] : [...secret];
  if (secrets.length === 0 || secrets.some((each) => !each)) {
    throw new UsageError("secret: it must be the secret of the endpoint, which begins with whsec_");
  }
  const delivery: Delivery = {
    body: typeof body === "string" ? utf8(body) : new Uint8Array(body),
    headers: lowerCase(headers),
    secrets,
    tolerance: options.tolerance ?? TOLERANCE_S,
    now: options.now ?? Date.now() / 1000,
  };
  const reasons = [await checkStandard(delivery), await checkOwn(delivery)];
  if (reasons.includes(undefined)) return payload(delivery.body);
  // What is wrong with a signature says more than that the other one is missing.
  throw new WebhookVerificationError(reasons.find((reason) => reason !== UNSIGNED) ?? UNSIGNED);
}

/** Whether a payload is of this event. */
export function isWebhook<Event extends keyof WebhookEvents>(
  payload: WebhookPayload,
  event: Event,
): payload is WebhookEvents[Event] {
  return payload.event === event && WEBHOOK_EVENTS.includes(event);
}

interface Delivery {
  body: Uint8Array;
  headers: Map<string, string>;
  secrets: string[];
  tolerance: number;
  now: number;
}

/** Why the headers of Standard Webhooks prove nothing; undefined if they are valid. */
async function checkStandard(delivery: Delivery): Promise<string | undefined> {
  const id = delivery.headers.get("webhook-id");
  const at = delivery.headers.get("webhook-timestamp");
  const signatures = delivery.headers.get("webhook-signature");
  if (id === undefined || at === undefined || signatures === undefined) return UNSIGNED;
  const reason = checkTime(at, delivery);
  if (reason !== undefined) return reason;
  const message = joined(`${id}.${at}.`, delivery.body);
  for (const secret of delivery.secrets) {
    const key = decodeBase64(secret.replace(/^whsec_/, ""));
    // There are several signatures while a secret is being replaced.
    for (const signature of signatures.split(/\s+/)) {
      const found = signature.startsWith("v1,") ? decodeBase64(signature.slice(3)) : undefined;
      if (key && key.length > 0 && found && (await isValid(key, found, message))) return undefined;
    }
  }
  return FORGED;
}

/** Why the service's own headers prove nothing; undefined if they are valid. */
async function checkOwn(delivery: Delivery): Promise<string | undefined> {
  const at = delivery.headers.get("x-webhook-timestamp");
  const signature = delivery.headers.get("x-webhook-signature");
  if (at === undefined || signature === undefined) return UNSIGNED;
  const reason = checkTime(at, delivery);
  if (reason !== undefined) return reason;
  const digits = /^sha256=((?:[0-9a-f]{2})+)$/.exec(signature)?.[1];
  if (digits === undefined) return FORGED;
  const found = Uint8Array.from(digits.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
  const message = joined(`${at}.`, delivery.body);
  for (const secret of delivery.secrets) {
    if (await isValid(utf8(secret), found, message)) return undefined;
  }
  return FORGED;
}

/** In constant time: WebCrypto compares. */
async function isValid(
  key: Uint8Array<ArrayBuffer>,
  signature: Uint8Array<ArrayBuffer>,
  message: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  return crypto.subtle.verify("HMAC", await hmacKey(key), signature, message);
}

function checkTime(at: string, delivery: Delivery): string | undefined {
  if (!/^[0-9]+$/.test(at)) return "the timestamp of the delivery is malformed";
  if (Math.abs(delivery.now - Number(at)) > delivery.tolerance) {
    return "the timestamp of the delivery is too old or in the future";
  }
  return undefined;
}

function joined(head: string, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const start = utf8(head);
  const whole = new Uint8Array(start.length + body.length);
  whole.set(start);
  whole.set(body, start.length);
  return whole;
}

function lowerCase(headers: WebhookHeaders): Map<string, string> {
  const pairs = Symbol.iterator in headers ? headers : Object.entries(headers);
  const found = new Map<string, string>();
  for (const [name, value] of pairs as Iterable<readonly [string, string | string[] | undefined]>) {
    if (value !== undefined) found.set(name.toLowerCase(), Array.isArray(value) ? value.join(" ") : value);
  }
  return found;
}

function payload(body: Uint8Array): WebhookPayload {
  try {
    const parsed = JSON.parse(new TextDecoder().decode(body)) as { event: unknown };
    if (typeof parsed.event === "string") return parsed as WebhookPayload;
  } catch {
    // No JSON.
  }
  throw new WebhookVerificationError("the body of the delivery is no payload of the service");
}
