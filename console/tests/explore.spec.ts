import { expect, expectAccessible, open, test } from "./stage";

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
