// axe on every page in both themes, with an account that has something to show.
import { SCREENS } from "../src/screens/registry";
import { fillAccount } from "./sample";
import { expect, expectAccessible, test } from "./stage";

const THRESHOLD = ["sign-in", "register", "forgot", "reset?token=x", "verify?token=x", "withdraw?token=x", "invitation?token=x"];

async function check(page: import("@playwright/test").Page, path: string): Promise<void> {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
  await page.waitForLoadState("networkidle");
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await test.step(`${path} ${colorScheme}`, () => expectAccessible(page));
  }
}

test("pages before sign-in", async ({ page }) => {
  for (const path of THRESHOLD) await check(page, `/console/${path}`);
});

test("screens", async ({ page, person }) => {
  test.setTimeout(120_000);
  const objectId = await fillAccount(person.api);
  for (const screen of SCREENS) await check(page, screen.path.replace("$objectId", encodeURIComponent(objectId)));
});
