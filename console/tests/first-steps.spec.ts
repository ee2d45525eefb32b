import { runSnippet } from "./snippet-runner";
import { type SigningKey, statusWith, tokenOf } from "./signing";
import { expect, expectAccessibleInBothThemes, open, press, test } from "./stage";

test("every snippet runs as it stands, and the page turns by itself", async ({ page, person, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page, "/console/first-steps", "First steps");
  await expect(page.getByText("Waiting for your first event")).toBeVisible();
  await press(page, "button", "Create a key");
  await expect(page.getByText("not shown again")).toBeVisible();
  for (const language of ["Command line", "Python", "TypeScript"]) {
    await page.getByRole("tab", { name: language }).focus();
    await page.keyboard.press("Enter");
    await press(page, "button", `Copy the ${language} snippet`);
    const code = await page.evaluate(() => navigator.clipboard.readText());
    expect(await runSnippet(language, code), language).toContain("is_scammer");
  }
  await expect(page.getByText(/seller_7 has answers to 3 signals/)).toBeVisible({ timeout: 45_000 });
  await expect(page.getByRole("img", { name: /is_scammer: \d+ %/ })).toBeVisible();
  await expect.poll(async () => ((await (await person.api.get("/v1/me")).json()) as { onboarded: boolean }).onboarded).toBe(true);
  await press(page, "link", "To the overview");
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeFocused();
});

test("the story can be played without a program", async ({ page, person }) => {
  void person;
  await open(page, "/console/first-steps", "First steps");
  await press(page, "button", /Play a small marketplace story/);
  await expect(page.getByText("3 objects sent")).toBeVisible();
  await expect(page.getByText(/has answers to 3 signals/)).toBeVisible({ timeout: 45_000 });
});

test("who waits for a first event learns why a request was refused", async ({ page, person, service }) => {
  const made = (await (await person.api.post("/v1/api_keys", { data: { name: "Shop" } })).json()) as SigningKey;
  await open(page, "/console/first-steps", "First steps");
  await expect(page.getByText("Waiting for your first event")).toBeVisible();
  const fiveMinutesAgo = Math.floor(Date.now() / 1000) - 300;
  expect(await statusWith(service.origin, tokenOf(made, { iat: fiveMinutesAgo, exp: fiveMinutesAgo + 60 }))).toBe(401);
  await expect(page.getByText("1 request was refused")).toBeVisible();
  await expect(page.getByText(/the clock is off/)).toBeVisible();
  await expect(page.getByText(/made 30\d s ago and ended 24\d s ago/)).toBeVisible();
  await expectAccessibleInBothThemes(page);
  await press(page, "link", "All refused requests");
  await expect(page.getByRole("grid", { name: "Refused requests" }).getByText("The clock is off")).toBeVisible();
});
