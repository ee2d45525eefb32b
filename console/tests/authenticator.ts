// A device with passkeys, which Chromium plays.
import type { Page } from "@playwright/test";

/** Where a page asks for a challenge, before it asks the device. */
export const CHALLENGE = "**/auth/console/passkey/start";

export interface Device {
  /** Nobody is there any more. While somebody is, Chromium also takes what it would only suggest. */
  leave: () => Promise<void>;
  /**
   * Does what makes the page ask for a passkey, with somebody there who agrees. Chromium looks whether somebody is there when the question
   * reaches the device and never again, so the touch comes between: after what the page has suggested until then has ended, and before
   * the page has the challenge to ask with.
   */
  touchWhenAsked: (ask: () => Promise<void>) => Promise<void>;
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
    touchWhenAsked: async (ask) => {
      const asked = page.waitForRequest(CHALLENGE);
      await page.route(
        CHALLENGE,
        async (route) => {
          await isTouched(true);
          await route.continue();
        },
        { times: 1 },
      );
      await ask();
      await asked;
    },
    credentials: async () => (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
  };
}
