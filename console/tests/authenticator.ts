// A device with passkeys, which Chromium plays.
import type { Page } from "@playwright/test";

export interface Device {
  /** Nobody is there any more. While somebody is, Chromium also takes what it would only suggest. */
  leave: () => Promise<void>;
  /** Somebody is there, and agrees. */
  touch: () => Promise<void>;
  credentials: () => Promise<{ isResidentCredential: boolean; rpId?: string }[]>;
}

/** Gives the browser a device with passkeys whose user is there and is verified. */
export async function plugIn(page: Page): Promise<Device> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  const isTouched = (enabled: boolean) => cdp.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled });
  return {
    leave: async () => void (await isTouched(false)),
    touch: async () => void (await isTouched(true)),
    credentials: async () => (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
  };
}
