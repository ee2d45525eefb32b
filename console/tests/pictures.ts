// Pictures of every screen in both themes, wide and narrow, with an account that has something to show: `make pictures`.
import type { Page } from "@playwright/test";

import { SCREENS } from "../src/screens/registry";
import { addressIn, expect, test } from "./stage";

const FOLDER = "pictures";
const SIZES = [
  { name: "1440", width: 1440, height: 900 },
  { name: "390", width: 390, height: 844 },
];

async function take(page: Page, name: string, path: string): Promise<void> {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await shoot(page, name);
}

/** Pictures of what the page shows now. */
async function shoot(page: Page, name: string): Promise<void> {
  await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
  await page.waitForLoadState("networkidle");
  await page.evaluate(() => scrollTo(0, 0));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await page.screenshot({ path: `${FOLDER}/${name}-${colorScheme}-${size.name}.png`, fullPage: true });
    }
  }
}

test("pages before sign-in", async ({ page }) => {
  for (const name of ["sign-in", "register", "forgot", "reset?token=x", "verify?token=x", "confirm?token=x", "withdraw?token=x", "invitation?token=x"]) {
    await take(page, name.replace(/\?.*/, ""), `/console/${name}`);
  }
});

for (const screen of SCREENS) {
  test(screen.name, async ({ page, context, sample }) => {
    await context.addCookies(sample.cookies);
    await take(page, screen.id, addressIn(screen.path, sample));
  });
}

/** What a screen shows after something was done in it. */
test("signals, rules and webhooks in use", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  for (const tab of ["trials", "versions", "backfill"]) await take(page, `signal-${tab}`, `/console/signals/off_platform?tab=${tab}`);
  await take(page, "rule-firings", `/console/rules/${sample.ruleId}?tab=firings`);
  for (const tab of ["deliveries", "verify"]) await take(page, `webhooks-${tab}`, `/console/webhooks?tab=${tab}`);
  await take(page, "endpoint-settings", `/console/webhooks/${sample.endpointId}?tab=settings`);

  await page.goto("/console/signals/trust_score");
  await page.getByLabel("Question").fill("How far would you trust this user with your own money?");
  await page.getByLabel("Add events").fill("Pay me by gift card and I ship today\nNo refunds");
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.getByText(/^Over 2 events/)).toBeVisible();
  await page.getByRole("button", { name: "Strike out event 1" }).click();
  await page.getByRole("button", { name: "Ask again" }).click();
  await expect(page.getByText(/^Over 1 of 2 events/)).toBeVisible();
  await shoot(page, "signal-playground");

  await page.goto(`/console/rules/${sample.ruleId}`);
  await page.getByRole("button", { name: "Replay" }).click();
  await expect(page.getByText("On whom")).toBeVisible();
  await shoot(page, "rule-replay");

  await page.goto(`/console/webhooks/${sample.endpointId}`);
  await page.getByRole("button", { name: "Details of" }).first().click();
  await expect(page.getByText("Request headers")).toBeVisible();
  await shoot(page, "endpoint-delivery");
});
