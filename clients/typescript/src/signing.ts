// Signed requests: each attempt gets a new HS256 token for one method and one path.

/** How long a token is valid, in seconds. */
const LIFETIME_S = 60;

const encoder = new TextEncoder();

/** The bytes of a text, as WebCrypto takes them. */
export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text) as Uint8Array<ArrayBuffer>;
}

/** A key for HMAC-SHA256. */
export function hmacKey(secret: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

/** Signs a token for a request, given its decoded path. */
export async function signToken(
  id: string,
  key: CryptoKey,
  nowMs: number,
  method: string,
  decodedPath: string,
): Promise<string> {
  const issued = Math.floor(nowMs / 1000);
  const header = { alg: "HS256", typ: "JWT", kid: id };
  const claims = {
    iat: issued,
    exp: issued + LIFETIME_S,
    jti: crypto.randomUUID(),
    htm: method,
    htu: decodedPath,
  };
  const message = `${base64url(utf8(JSON.stringify(header)))}.${base64url(utf8(JSON.stringify(claims)))}`;
  const signature = await crypto.subtle.sign("HMAC", key, utf8(message));
  return `${message}.${base64url(new Uint8Array(signature))}`;
}

/** Encodes bytes without padding. */
export function base64url(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Decodes base64; undefined if it is none. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
