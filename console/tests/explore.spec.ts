import { readFileSync } from "node:fs";

import { fillLabelled } from "./labelled";
import { expect, expectAccessible, expectAccessibleInBothThemes, open, press, test, type } from "./stage";

const EDITOR = "Condition";

test("a condition completes, is checked where it is wrong, counted and shown", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  await open(page, "/console/explore", "Explore");
  const editor = page.getByRole("textbox", { name: EDITOR });
  await editor.focus();
  await page.keyboard.type("is_sc");
  const options = page.getByRole("listbox").getByRole("option");
  await expect(options.filter({ hasText: "is_scammer" })).toBeVisible();
  await page.keyboard.press("Enter");
  await page.keyboard.type("> 0.9 and trust_scor < 1");
  await expect(page.getByText(/unknown signal `trust_scor` \(at character 22\)/)).toBeVisible();
  await expect(page.locator("[data-condition-editor] .cm-lintRange-error")).toHaveText("trust_scor");
  await expectAccessible(page);
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("is_scammer > 0.5");
  await page.keyboard.press("Escape");
  await expect(page.getByText(/^\d objects match now$/)).toBeVisible();
  const matches = Number((await page.getByText(/objects match now$/).textContent())?.split(" ")[0]);
  await page.keyboard.press("Enter");
  await expect(page.getByText(`${matches} objects shown`)).toBeVisible();
  expect(new URL(page.url()).searchParams.get("q")).toBe("is_scammer > 0.5");
  await page.getByRole("grid", { name: "Objects" }).getByRole("row").nth(1).press("Enter");
  await expect(page).toHaveURL(/\/console\/objects\/\w+%2F\d+$/);
});

test("a long list is virtual and goes on", async ({ page, person }) => {
  for (let index = 0; index < 130; index++) {
    const answer = await person.api.post(`/v1/objects/item-${index}/events`, { data: { events: [{ type: "event", name: "seen" }] } });
    expect(answer.status()).toBe(202);
  }
  await open(page, "/console/explore", "Explore");
  await expect(page.getByText("100 objects shown")).toBeVisible();
  await page.getByRole("button", { name: "Load more" }).press("Enter");
  await expect(page.getByText("130 objects shown")).toBeVisible();
  expect(await page.getByRole("grid", { name: "Objects" }).getByRole("row").count(), "rows in the document").toBeLessThan(60);
});

test("a threshold is moved by keys, a view is saved, and both are in the address", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  await open(page, "/console/explore", "Explore");
  const threshold = page.getByRole("slider", { name: /is_scammer/ });
  await threshold.focus();
  await page.keyboard.press("ArrowRight");
  await expect(page).toHaveURL(/q=is_scammer\+%3E\+0\.51/);
  await expect(page.getByRole("textbox", { name: "Condition" })).toHaveText("is_scammer > 0.51");
  await page.keyboard.press("End");
  await expect(page.getByText("No object matches")).toBeVisible();
  await page.keyboard.press("Home");
  await expect(page).toHaveURL(/q=is_scammer\+%3E\+0(&|$)/);
  await expectAccessibleInBothThemes(page);

  await press(page, "button", "Save this view");
  await expect(page.getByLabel("Name", { exact: true })).toBeFocused();
  await page.keyboard.type("Anything at all");
  await page.keyboard.press("Enter");
  const views = page.getByRole("list", { name: "Saved views" });
  await expect(views).toContainText("Anything at all");
  await open(page, "/console/explore", "Explore");
  await press(page, "link", "Anything at all");
  await expect(page).toHaveURL(/q=is_scammer/);
  await expect(page.getByRole("textbox", { name: "Condition" })).toHaveText("is_scammer > 0");
  await press(page, "button", "Remove the view Anything at all");
  await expect(views).toHaveCount(0);
});

test("many objects are labelled, put into a queue and exported, with their number first", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 5, labelled: 0 });
  await open(page, "/console/explore", "Explore");
  const rows = page.getByRole("grid", { name: "Objects" }).getByRole("row");
  await expect(rows).toHaveCount(6);
  await rows.nth(1).focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Space");
  await expect(page.getByText("2 selected")).toBeVisible();
  await expectAccessible(page);
  await press(page, "button", "Label…");
  await expect(page.getByRole("dialog", { name: "Label 2 objects" })).toBeVisible();
  await press(page, "button", "Yes");
  await press(page, "button", "Label 2 objects");
  await expect(page.getByText("2 objects labelled: is_scammer is Yes.")).toBeVisible();
  const labels = async () => ((await (await person.api.get("/v1/labels")).json()) as { labels: { signal: string; value: unknown }[] }).labels;
  expect((await labels()).map(({ signal, value }) => [signal, value])).toEqual([["is_scammer", true], ["is_scammer", true]]);

  await press(page, "button", /^Select all that match/);
  await expect(page.getByText("5 selected")).toBeVisible();
  await press(page, "button", "Open reviews…");
  await type(page, "Queue", "second look");
  await page.keyboard.press("Enter");
  await expect(page.getByText("5 objects wait in the queue second look.")).toBeVisible();
  const { reviews } = (await (await person.api.get("/v1/reviews?queue=second%20look")).json()) as { reviews: unknown[] };
  expect(reviews.length).toBe(5);

  const file = page.waitForEvent("download");
  await press(page, "button", "Export as CSV");
  const csv = readFileSync(await (await file).path(), "utf8").trimEnd().split("\r\n");
  expect(csv[0]).toMatch(/^object_id,object_type,display_name,event_count,last_seen,/);
  expect(csv.length).toBe(6);
});
