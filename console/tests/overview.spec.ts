import { fillAccount } from "./sample";
import { expect, open, press, test } from "./stage";

test("figures lead to their lists, and charts have a table", async ({ page, person }) => {
  await fillAccount(person.api);
  await open(page, "/console/overview", "Overview");
  const figures = page.getByRole("list", { name: "Figures" });
  await expect(figures.getByRole("listitem").filter({ hasText: "Objects" })).toContainText("6");
  await expect(figures.getByRole("listitem").filter({ hasText: "Events" })).toContainText("12");
  await expect(page.getByRole("grid", { name: "Objects with the highest risk" }).getByRole("row")).toHaveCount(7);
  await expect(page.getByRole("img", { name: /Analyses by UTC day, 6 analyses/ })).toBeVisible();
  await press(page, "button", "Show as table");
  await expect(page.getByRole("columnheader", { name: "Day (UTC)" })).toBeVisible();
  await press(page, "link", "Flagged");
  expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe("/console/explore?sort=flagged");
});

test("an account without objects is shown the way", async ({ page, person }) => {
  void person;
  await open(page, "/console/overview", "Overview");
  await page.getByRole("main").getByRole("link", { name: "First steps" }).press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
});
