import type { Page } from "@playwright/test";

import { expect, open, press, test, type } from "./stage";

test("a key is created, shown once, renamed, rotated and revoked by keyboard", async ({ page, person }) => {
  await open(page, "/console/keys", "Keys");
  await expect(page.getByText("No keys yet")).toBeVisible();
  await press(page, "button", "Create a key");
  await expect(page.getByLabel("Name", { exact: true })).toBeFocused();
  await page.keyboard.type("Importer");
  await page.keyboard.press("Enter");
  const secrets = page.getByRole("dialog", { name: "Your new secret" });
  const first = await secrets.locator("code").nth(1).textContent();
  expect(first).toMatch(/^sk_/);
  await press(page, "button", "I have stored it");
  await expect(page.getByText(first ?? "")).toHaveCount(0);

  const act = async (name: string) => {
    await openActions(page);
    await page.getByRole("menuitem", { name }).press("Enter");
  };
  await act("Rename…");
  await type(page, "Name", "Nightly importer");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("rowheader", { name: "Nightly importer" })).toBeVisible();

  await act("Turn off");
  await expect(page.getByText("inactive")).toBeVisible();

  await act("Rotate the secret…");
  await press(page, "button", "Rotate");
  await expect(secrets.locator("code").nth(1)).toHaveText(/^sk_/);
  expect(await secrets.locator("code").nth(1).textContent()).not.toBe(first);
  await press(page, "button", "I have stored it");

  await act("Revoke…");
  await page.keyboard.press("Escape");
  await act("Revoke…");
  await press(page, "button", "Revoke");
  await expect(page.getByText("No keys yet")).toBeVisible();
  const { api_keys } = (await (await person.api.get("/v1/api_keys")).json()) as { api_keys: { status: string }[] };
  expect(api_keys.filter((key) => key.status !== "revoked")).toEqual([]);
});

/** In the table, Tab reaches a row, and the arrows its cells; the actions are the last one. */
async function openActions(page: Page): Promise<void> {
  await page.getByRole("rowheader").locator("..").focus();
  await page.keyboard.press("ArrowLeft");
  await expect(page.getByRole("button", { name: "Actions for" })).toBeFocused();
  await page.keyboard.press("Enter");
}

test("an error of the service stands beside the field that it names", async ({ page, person }) => {
  void person;
  await page.route("**/v1/api_keys", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    await route.fulfill({ status: 400, json: { error: { code: "bad_request", message: "name: at most 100 characters" } } });
  });
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "x");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Name", { exact: true })).toHaveAccessibleDescription(/At most 100 characters\./);
});
