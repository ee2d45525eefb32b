// Pictures of every screen in both themes, wide and narrow, with an account that has something to show: `make pictures`.
import type { Page } from "@playwright/test";

import { SCREENS } from "../src/screens/registry";
import { expect, test } from "./stage";

const FOLDER = "pictures";
const SIZES = [
  { name: "1440", width: 1440, height: 900 },
  { name: "390", width: 390, height: 844 },
];

async function take(page: Page, name: string, path: string): Promise<void> {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
  await page.waitForLoadState("networkidle");
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
    await take(page, screen.id, screen.path.replace("$objectId", encodeURIComponent(sample.objectId)));
  });
}
