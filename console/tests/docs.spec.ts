// The reference at /docs: in the console's clothes, whole, and with an address for each operation.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { project } from "./service";
import { expect, test } from "./stage";

/** The custom properties that a sheet declares for the root. */
function tokensOf(path: string): Map<string, string> {
  const sheet = readFileSync(join(project, path), "utf8");
  const root = /:root \{([^}]*)\}/.exec(sheet)?.[1] ?? "";
  return new Map([...root.matchAll(/(--[\w-]+):\s*([^;]+);/g)].map(([, name = "", value = ""]) => [name, value.replaceAll(/\s+/g, " ")]));
}

test("the reference has the tokens of the console", () => {
  const console = tokensOf("console/src/styles/tokens.css");
  const reference = tokensOf("crates/server/assets/docs/docs.css");
  expect(reference.size).toBeGreaterThan(20);
  for (const [name, value] of reference) expect(value, name).toBe(console.get(name));
});

test("the reference cuts no name, finds an operation, and has an address for each", async ({ page, service }) => {
  const document = (await (await fetch(`${service.origin}/openapi.json`)).json()) as { paths: Record<string, Record<string, { operationId?: string }>> };
  const ids = Object.values(document.paths).flatMap((item) => Object.values(item).flatMap(({ operationId }) => operationId ?? []));
  await page.goto("/docs#getDistribution");
  const operation = page.locator("article#getDistribution");
  await expect(operation).toBeInViewport();
  await expect(operation).toHaveText(/Needs: one of signed_request, console_token, legacy_key/);
  expect(await operation.evaluate((element) => element.matches(":target"))).toBe(true);
  expect((await page.locator("article").evaluateAll((articles) => articles.map(({ id }) => id))).sort()).toEqual(ids.toSorted());
  const links = page.getByRole("navigation", { name: "Operations" }).getByRole("link");
  expect((await links.evaluateAll((all) => all.map((link) => link.getAttribute("href")))).sort()).toEqual(ids.map((id) => `#${id}`).sort());
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const cut = await links.evaluateAll((all) => all.filter((link) => [link, ...link.children].some((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0)).map((link) => link.textContent));
    expect(cut, `cut at ${width} px`).toEqual([]);
    expect(await page.evaluate(() => window.document.documentElement.scrollWidth - window.document.documentElement.clientWidth), `overflow at ${width} px`).toBeLessThanOrEqual(0);
  }
  await page.setViewportSize({ width: 1440, height: 900 });

  await page.getByLabel("Find an operation").focus();
  await page.keyboard.type("distribution");
  await expect(links).toHaveCount(1);
  await links.first().press("Enter");
  await expect(operation).toBeInViewport();
});

test("the reference follows the theme that was chosen in the console", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto("/docs");
  const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  expect(await scheme()).toBe("light dark");
  await page.evaluate(() => localStorage.setItem("auspex-theme", "dark"));
  await page.reload();
  expect(await scheme()).toBe("dark");
});
