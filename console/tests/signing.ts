// Tokens of signed requests, made by hand, so that they can be wrong.
import { createHmac } from "node:crypto";

export interface SigningKey {
  id: string;
  key: string;
  secret: string;
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token with these claims instead of, or beside, those that a good one has. */
export function tokenOf({ key, secret }: SigningKey, claims: Record<string, unknown> = {}): string {
  const now = Math.floor(Date.now() / 1000);
  const message = `${encode({ alg: "HS256", typ: "JWT", kid: key })}.${encode({ iat: now, exp: now + 60, ...claims })}`;
  return `${message}.${createHmac("sha256", secret).update(message).digest("base64url")}`;
}

/** How the service answers a request for the account with this token. */
export async function statusWith(origin: string, token: string): Promise<number> {
  return (await fetch(`${origin}/v1/me`, { headers: { Authorization: `Bearer ${token}` } })).status;
}
