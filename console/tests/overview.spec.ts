import { fillAccount } from "./sample";
import { expect, expectAccessible, open, press, test } from "./stage";

test("figures lead to their lists, and charts have a table", async ({ page, person }) => {
  await fillAccount(person.api);
  await open(page, "/console/overview", "Overview");
  const figures = page.getByRole("list", { name: "Figures" });
  await expect(figures.getByRole("listitem").filter({ hasText: "Objects" })).toContainText("6");
  await expect(figures.getByRole("listitem").filter({ hasText: "Events" })).toContainText("12");
  await expect(page.getByRole("grid", { name: "Objects with the highest answers" }).getByRole("row"), "of six objects one is likelier no by every signal").toHaveCount(6);
  await expect(page.getByRole("img", { name: /Analyses by UTC day, 6 analyses/ })).toBeVisible();
  await page.getByRole("region", { name: "Analyses" }).getByRole("button", { name: "Show as table" }).press("Enter");
  await expect(page.getByRole("columnheader", { name: "Day (UTC)" })).toBeVisible();
  await press(page, "link", "High answers");
  expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe("/console/explore?sort=flagged");
});

test("each figure says what it was a day before, leads to its list, and follows what happens", async ({ page, person }) => {
  await fillAccount(person.api);
  await open(page, "/console/overview", "Overview");
  const figure = (name: string) => page.getByRole("list", { name: "Figures" }).getByRole("listitem").filter({ has: page.getByRole("link", { name, exact: true }) });
  await expect(figure("Events")).toContainText("in the last 24 hours, 0 in the 24 before");
  const { firings } = (await (await person.api.get("/v1/rule_firings")).json()) as { firings: unknown[] };
  await expect(figure("Rules fired today")).toContainText(`${firings.length}none recorded yesterday`);
  await expect(page.getByRole("img", { name: new RegExp(`^Firings by UTC day, ${firings.length} firings? since \\d+ \\w+\\. `) })).toBeVisible();
  const byDay = page.getByRole("region", { name: "Firings", exact: true });
  await byDay.getByRole("button", { name: "Show as table" }).press("Enter");
  await expect(byDay.getByRole("row"), "the days of which something is known").toHaveCount(2);
  await expect(figure("Analyses today")).toContainText("0 yesterday");
  await expect(figure("Objects")).toContainText("6 new today, none recorded yesterday100 % analyzed");
  const lists = { Objects: "/console/explore", Events: "/console/explore?sort=recent", "High answers": "/console/explore?sort=flagged", "Rules fired today": "/console/rules?tab=firings", "Analyses today": "/console/billing", "Spent today": "/console/billing" };
  for (const [name, address] of Object.entries(lists)) {
    await press(page, "link", name);
    await expect.poll(() => new URL(page.url()).pathname + new URL(page.url()).search).toBe(address);
    await page.goBack();
    await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  }

  await press(page, "link", "Rules fired today");
  await expect(page.getByRole("grid", { name: "Firings" }).getByRole("row")).toHaveCount(firings.length + 1);
  await expect(page.getByRole("grid", { name: "Firings" }).getByRole("link", { name: "Likely scam" }).first()).toBeVisible();
  await expectAccessible(page);
  await page.goBack();
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();

  const sent = await person.api.post("/v1/objects/newcomer/events", { data: { wait: true, object_type: "buyer", events: [{ type: "message", content: "Hello" }] } });
  expect(sent.ok()).toBe(true);
  await page.reload();
  await expect(figure("Objects")).toContainText("7");
  await expect(figure("Events")).toContainText("13");
  const risky = page.getByRole("grid", { name: "Objects with the highest answers" });
  await risky.getByRole("row").nth(1).focus();
  await page.keyboard.press("ArrowRight");
  await expect(risky.getByRole("link").first()).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "Answers now" })).toBeVisible();
});

test("an account without objects is shown the way", async ({ page, person }) => {
  void person;
  await open(page, "/console/overview", "Overview");
  await page.getByRole("main").getByRole("link", { name: "First steps" }).press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
});
