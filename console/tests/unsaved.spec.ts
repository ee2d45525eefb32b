// Leaving with something unsaved asks first, and nothing typed is lost.
import type { Page } from "@playwright/test";

import { send } from "./labelled";
import { choose, conditionEditor, expect, expectAccessible, open, press, test, type } from "./stage";

const question = (page: Page) => page.getByRole("dialog", { name: "Leave without saving?" });
const heading = (page: Page) => page.getByRole("heading", { level: 1 });
const leaveFor = (page: Page, screen: string) => page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: screen }).press("Enter");

/** Stays where it is, with the keyboard's first answer. */
async function stay(page: Page): Promise<void> {
  await expect(question(page).getByRole("button", { name: "Stay" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(question(page)).toHaveCount(0);
}

test("the wording of a signal is kept until somebody says to leave it", async ({ page, person }) => {
  void person;
  await open(page, "/console/signals/is_scammer", "is_scammer");
  await leaveFor(page, "Signals");
  await expect(heading(page), "nothing is changed, and nobody asked").toHaveText("Signals");
  await page.getByRole("row", { name: /is_scammer/ }).press("Enter");
  await expect(heading(page)).toHaveText("is_scammer");
  await type(page, "Question", "Does this user cheat?");
  const field = page.getByLabel("Question", { exact: true });
  await leaveFor(page, "Rules");
  await expectAccessible(page);
  await stay(page);
  await page.getByRole("tab", { name: "Wording" }).press("End");
  await expect(page.getByRole("tab", { name: "Backfill" })).toHaveAttribute("aria-selected", "true");
  await page.getByRole("tab", { name: "Backfill" }).press("Home");
  await expect(field, "another tab is no leaving").toHaveValue("Does this user cheat?");

  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.type());
    void dialog.dismiss();
  });
  await page.evaluate(() => location.reload());
  await expect.poll(() => dialogs).toEqual(["beforeunload"]);
  await page.evaluate(() => history.back());
  await expect(question(page)).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(question(page)).toHaveCount(0);
  await expect(field).toHaveValue("Does this user cheat?");
  await leaveFor(page, "Rules");
  await question(page).getByRole("button", { name: "Leave without saving" }).press("Enter");
  await expect(heading(page)).toHaveText("Rules");
});

test("a rule is guarded until it is saved", async ({ page, person }) => {
  await open(page, "/console/rules/new-rule", "New rule");
  await conditionEditor(page).focus();
  await page.keyboard.type("is_scammer > 0.9");
  await page.keyboard.press("Escape");
  await leaveFor(page, "Keys");
  await stay(page);
  await type(page, "Name", "Likely scam");
  await type(page, "Queue", "scams");
  await press(page, "button", "Create the rule");
  await expect(heading(page), "saving is no leaving").toHaveText("Likely scam");

  await type(page, "Name", "Surely a scam");
  await page.getByRole("tab", { name: "Rule", exact: true }).press("ArrowRight");
  await expect(page.getByText("It has not fired yet")).toBeVisible();
  await page.getByRole("tab", { name: "Firings" }).press("ArrowLeft");
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("Surely a scam");
  await leaveFor(page, "Keys");
  await stay(page);
  await press(page, "button", "Save the rule");
  await expect(page.getByText("Saved.", { exact: true })).toBeVisible();
  await leaveFor(page, "Keys");
  await expect(heading(page)).toHaveText("Keys");
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ name: "Surely a scam", when: "is_scammer > 0.9" }]);
});

test("the form of an endpoint is guarded, in its dialog and on its screen", async ({ page, person }) => {
  await open(page, "/console/webhooks", "Webhooks");
  await press(page, "button", "New endpoint");
  await expect(page.getByRole("dialog", { name: "New endpoint" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await press(page, "button", "New endpoint");
  await type(page, "URL", "https://example.com/hooks");
  await page.keyboard.press("Escape");
  await stay(page);
  await expect(page.getByLabel("URL", { exact: true })).toHaveValue("https://example.com/hooks");
  await page.keyboard.press("Escape");
  await question(page).getByRole("button", { name: "Leave without saving" }).press("Enter");
  await expect(page.getByRole("dialog")).toHaveCount(0);

  const { endpoint } = (await send(person.api, "post", "/v1/webhooks", { url: "http://127.0.0.1:9/hooks" })) as { endpoint: { id: string } };
  await open(page, `/console/webhooks/${endpoint.id}?tab=settings`, "http://127.0.0.1:9/hooks");
  await choose(page, "checkbox", /review.opened/);
  await leaveFor(page, "Keys");
  await stay(page);
  await press(page, "button", "Save");
  await expect(page.getByText("Saved.", { exact: true })).toBeVisible();
  await leaveFor(page, "Keys");
  await expect(heading(page)).toHaveText("Keys");
});
