// Programs that verify a delivery, with nothing but what comes with the language. They read the Standard Webhooks headers, which carry
// two signatures while a secret is being rotated.

const PYTHON = `import base64, hashlib, hmac, time


def is_ours(secret: str, headers, body: bytes) -> bool:
    """Whether Auspex sent the delivery. Pass the raw body, before anything parses it."""
    timestamp = headers["webhook-timestamp"]
    if abs(time.time() - int(timestamp)) > 300:  # five minutes
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    given = headers["webhook-signature"].split(" ")
    return any([hmac.compare_digest(expected, one.encode()) for one in given])
`;

const TYPESCRIPT = `import { createHmac, timingSafeEqual } from "node:crypto";

/** Whether Auspex sent the delivery. Pass the raw body, before anything parses it. */
export function isOurs(secret: string, headers: Record<string, string>, body: string): boolean {
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false; // five minutes
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = \`\${headers["webhook-id"]}.\${timestamp}.\${body}\`;
  const expected = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  const given = (headers["webhook-signature"] ?? "").split(" ").map((one) => Buffer.from(one));
  return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}
`;

export const PROGRAMS = [
  { id: "python", name: "Python", code: PYTHON },
  { id: "typescript", name: "TypeScript", code: TYPESCRIPT },
];
