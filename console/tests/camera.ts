// Takes the pictures of a page in both themes, wide and narrow.
import type { Page } from "@playwright/test";

import { expect, settled } from "./stage";

const FOLDER = "pictures";
const SIZES = [
  { name: "1440", width: 1440, height: 900 },
  { name: "390", width: 390, height: 844 },
];

export async function take(page: Page, name: string, path: string): Promise<void> {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await shoot(page, name);
}

/** Pictures of what the page shows now. */
export async function shoot(page: Page, name: string): Promise<void> {
  await expect(page.getByText("Loading", { exact: true })).toHaveCount(0);
  // What is below the fold is asked for once it is in sight.
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await settled(page);
  await page.evaluate(() => scrollTo(0, 0));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await page.screenshot({ path: `${FOLDER}/${name}-${colorScheme}-${size.name}.png`, fullPage: true });
    }
  }
}
