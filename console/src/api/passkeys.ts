// Passkeys: what the browser's authenticator is asked, and what it answers. Every browser that knows passkeys understands this; the
// methods that take and give JSON are younger than that.
import { api, take, type Schemas } from "./client";

/** Whether this browser can use passkeys on this page: not by an IP address, and not without TLS. */
export const hasPasskeys = (): boolean =>
  window.isSecureContext && typeof window.PublicKeyCredential === "function" && !/^[\d.]+$|^\[/.test(location.hostname);

/** Whether the browser offers passkeys among what it fills in. */
export const suggestsPasskeys = async (): Promise<boolean> =>
  hasPasskeys() && ((await PublicKeyCredential.isConditionalMediationAvailable?.().catch(() => false)) ?? false);

const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));

const textOf = (buffer: ArrayBuffer): string =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const REASONS: Record<string, string> = {
  NotAllowedError: "no passkey was chosen, or it took too long",
  InvalidStateError: "this device has a passkey for you already",
  NotSupportedError: "this device cannot make a passkey that would do",
  SecurityError: "passkeys do not work at this address",
};

async function answered(asked: Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const credential = await asked;
    if (credential) return credential as PublicKeyCredential;
  } catch (error) {
    if (!(error instanceof DOMException) || error.name === "AbortError") throw error;
    throw new Error(REASONS[error.name] ?? error.message, { cause: error });
  }
  throw new Error(REASONS.NotAllowedError);
}

/** Has the device make a passkey, and adds it to the member who is signed in. */
export async function addPasskey(name: string): Promise<Schemas["Passkey"]> {
  const options = await take(api.POST("/v1/me/passkeys/start"));
  const publicKey: PublicKeyCredentialCreationOptions = {
    challenge: bytesOf(options.challenge),
    rp: options.rp,
    user: { ...options.user, id: bytesOf(options.user.id) },
    pubKeyCredParams: options.pubKeyCredParams as PublicKeyCredentialParameters[],
    timeout: options.timeout,
    excludeCredentials: options.excludeCredentials.map(({ id }) => ({ type: "public-key", id: bytesOf(id) })),
    authenticatorSelection: options.authenticatorSelection as AuthenticatorSelectionCriteria,
    attestation: options.attestation as AttestationConveyancePreference,
  };
  const response = (await answered(navigator.credentials.create({ publicKey }))).response as AuthenticatorAttestationResponse;
  const body = { name, response: { clientDataJSON: textOf(response.clientDataJSON), attestationObject: textOf(response.attestationObject) } };
  return take(api.POST("/v1/me/passkeys/finish", { body }));
}

/** The suggestion that waits. Browsers have one question about passkeys at a time, */
let suggestion: AbortController | undefined;
/** and what a person asks for goes before what is only suggested. */
let isAsking = false;

/** Asks for one of the passkeys on this device. With `suggest`, the browser offers them where the email is typed, and asks nothing. */
export async function askForPasskey(suggest?: AbortController): Promise<Schemas["PasskeyAssertion"]> {
  if (suggest && isAsking) throw new DOMException("a passkey is being asked for", "AbortError");
  suggestion?.abort();
  suggestion = suggest;
  if (suggest) return assertion(suggest);
  isAsking = true;
  try {
    return await assertion();
  } finally {
    isAsking = false;
  }
}

async function assertion(suggest?: AbortController): Promise<Schemas["PasskeyAssertion"]> {
  const options = await take(api.POST("/auth/console/passkey/start", { signal: suggest?.signal }));
  const publicKey: PublicKeyCredentialRequestOptions = {
    challenge: bytesOf(options.challenge),
    rpId: options.rpId,
    timeout: options.timeout,
    userVerification: options.userVerification as UserVerificationRequirement,
  };
  const conditional = suggest && { mediation: "conditional" as const, signal: suggest.signal };
  const credential = await answered(navigator.credentials.get({ publicKey, ...conditional }));
  const response = credential.response as AuthenticatorAssertionResponse;
  return {
    id: textOf(credential.rawId),
    response: {
      clientDataJSON: textOf(response.clientDataJSON),
      authenticatorData: textOf(response.authenticatorData),
      signature: textOf(response.signature),
      userHandle: response.userHandle ? textOf(response.userHandle) : undefined,
    },
  };
}
