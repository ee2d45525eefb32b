import type { Page } from "@playwright/test";

import { plugIn } from "./authenticator";
import { expect, expectAccessible, open, press, test, type, WORDS } from "./stage";

test.use({ settings: { ...WORDS, AUSPEX_RECENT_PROOF_SECONDS: "4" } });

/** Waits until the service wants a new proof. */
async function proofHasAged(page: Page): Promise<void> {
  const headers = { Origin: new URL(page.url()).origin };
  await expect.poll(async () => (await page.request.post("/v1/me/passkeys/start", { headers })).status(), { timeout: 20_000 }).toBe(403);
}

test("a passkey confirms who is there, once the last proof has aged", async ({ page, person }) => {
  await plugIn(page);
  await open(page, "/console/account", "Account");
  await proofHasAged(page);
  await press(page, "button", "Add a passkey");
  await type(page, "Name", "Laptop");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Confirm that it is you" });
  await expect(dialog.getByLabel("Password", { exact: true })).toBeFocused();
  await expect(dialog.getByRole("button", { name: "Confirm with a passkey" }), "there is none yet").toHaveCount(0);
  await page.keyboard.type(person.password);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("list", { name: "Passkeys" })).toContainText("Laptop");

  await proofHasAged(page);
  await press(page, "button", "Set up with an app");
  await expect(dialog).toBeVisible();
  await expectAccessible(page);
  await press(page, "button", "Confirm with a passkey");
  await expect(page.getByRole("dialog", { name: "Set up two-factor" })).toBeVisible();
});
