// Sign-in at a provider: a real issuer with pages of its own, in a window that the console opens.
import type { Page } from "@playwright/test";

import { Issuer } from "./issuer";
import { Service } from "./service";
import { expect, press, test as base, WORDS } from "./stage";

const test = base.extend<object, { service: Service }>({
  service: [
    async ({}, use) => {
      let issuer: Issuer | undefined;
      const service = await Service.start(WORDS, async (origin) => {
        issuer = await Issuer.start(origin);
        return issuer.settings;
      });
      await issuer?.person("ann", { name: "Ann", email: "ann@acme.example", email_verified: true });
      await use(service);
      await service.stop();
      issuer?.stop();
    },
    { scope: "worker", timeout: 60_000 },
  ],
});

/** Presses the provider's button; the page of the provider that opens. */
async function goToProvider(page: Page): Promise<Page> {
  const opened = page.waitForEvent("popup");
  await press(page, "button", "Continue with Acme");
  const window = await opened;
  await expect(window.getByRole("heading", { name: "Authorize Client" })).toBeVisible();
  return window;
}

async function agreeAs(window: Page, subject: string): Promise<void> {
  await window.getByPlaceholder("sub").fill(subject);
  const closed = window.waitForEvent("close");
  await window.keyboard.press("Enter");
  await closed;
}

test("a person opens an account at the provider, signs out, and comes back to it", async ({ page }) => {
  await page.goto("/console/sign-in");
  await agreeAs(await goToProvider(page), "ann");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
  const me = (await (await page.request.get("/v1/me")).json()) as { email: string; email_verified: boolean; tenant_id: string };
  expect(me).toMatchObject({ email: "ann@acme.example", email_verified: true });

  await press(page, "button", "Sign out");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await page.goto("/console/keys");
  await agreeAs(await goToProvider(page), "ann");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Keys");
  expect(await (await page.request.get("/v1/me")).json()).toMatchObject({ tenant_id: me.tenant_id });
});

test("who refuses at the provider, or closes its window, is told so and can try again", async ({ page }) => {
  await page.goto("/console/sign-in");
  const refusing = await goToProvider(page);
  const closed = refusing.waitForEvent("close");
  await refusing.getByRole("button", { name: "Deny" }).press("Enter");
  await closed;
  await expect(page.getByRole("alert")).toContainText("The provider refused");

  await (await goToProvider(page)).close();
  await expect(page.getByRole("alert")).toContainText("window was closed before it finished");
  await agreeAs(await goToProvider(page), "ann");
  await expect(page.getByRole("heading", { level: 1 })).not.toHaveText("Sign in");
});
