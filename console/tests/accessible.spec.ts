// axe on every page in both themes, with an account that has something to show.
import type { Page } from "@playwright/test";

import { SCREENS } from "../src/screens/registry";
import { addressIn, expect, expectAccessible, test } from "./stage";

const THRESHOLD = ["sign-in", "register", "forgot", "reset?token=x", "verify?token=x", "confirm?token=x", "withdraw?token=x", "invitation?token=x"];

async function check(page: Page, path: string): Promise<void> {
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
  await page.waitForLoadState("networkidle");
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await expectAccessible(page, "contrast");
}

for (const path of THRESHOLD) {
  test(`/console/${path} is accessible in both themes`, async ({ page }) => check(page, `/console/${path}`));
}

for (const screen of SCREENS) {
  test(`${screen.name} is accessible in both themes`, async ({ page, context, sample }) => {
    await context.addCookies(sample.cookies);
    await check(page, addressIn(screen.path, sample));
  });
}
