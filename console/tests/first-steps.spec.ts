import { Service } from "./service";
import { type SigningKey, statusWith, tokenOf } from "./signing";
import { runSnippet } from "./snippet-runner";
import { expect, expectAccessibleInBothThemes, open, PASSWORD, press, test, type, WORDS } from "./stage";

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

test("a wrong method and a revoked key are explained, also where no other key is left", async ({ page, person, service }) => {
  const made = (await (await person.api.post("/v1/api_keys", { data: { name: "Shop" } })).json()) as SigningKey & { api_key: { id: string } };
  expect(await statusWith(service.origin, tokenOf(made, { htm: "POST" }))).toBe(401);
  expect((await person.api.delete(`/v1/api_keys/${made.api_key.id}`)).status()).toBe(204);
  await open(page, "/console/first-steps", "First steps");
  await expect(page.getByText(/signed for another method\. Put the method of the request into htm\./)).toBeVisible();
  await expect(page.getByText('htm is "POST", and the request was GET')).toBeVisible();
  expect(await statusWith(service.origin, tokenOf(made))).toBe(401);
  await expect(page.getByText(/the key is revoked\. It does not come back\. Give the program another key\./)).toBeVisible();
  await expect(page.getByRole("button", { name: "Create a key" }), "the way out").toBeVisible();
});

test("from an empty install to the first verdict, by keyboard", async ({ page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const service = await Service.start(WORDS);
  try {
    await page.goto(`${service.origin}/console/`);
    await expect(page.getByLabel("Name of the account")).toBeFocused();
    await page.keyboard.type("Acme");
    await type(page, "Email", "first@example.com");
    await type(page, "Password", PASSWORD);
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
    await press(page, "button", "Create a key");
    const secrets = page.getByRole("region", { name: "Make a key" }).locator("dd code");
    const key = (await secrets.filter({ hasText: /^ak_/ }).textContent()) ?? "";
    const secret = (await secrets.filter({ hasText: /^sk_/ }).textContent()) ?? "";
    await press(page, "button", "Copy the Command line snippet");
    expect(await runSnippet("Command line", await page.evaluate(() => navigator.clipboard.readText()))).toContain("is_scammer");
    await expect(page.getByText(/seller_7 has answers to 3 signals/)).toBeVisible({ timeout: 45_000 });

    const headers = { Authorization: `Bearer ${tokenOf({ id: "", key, secret })}`, "Content-Type": "application/json" };
    const body = JSON.stringify({ wait: true, events: [{ type: "message", content: "No refunds, gift cards only" }] });
    const verdict = await fetch(`${service.origin}/v1/objects/seller_7/events`, { method: "POST", headers, body });
    expect(verdict.status).toBe(200);
    const { answers } = (await verdict.json()) as { answers: { signal: string; noul?: number }[] };
    const scammer = answers.find((answer) => answer.signal === "is_scammer")?.noul ?? -1;
    await page.getByRole("link", { name: "seller_7" }).press("Enter");
    await expect(page.getByRole("heading", { level: 1, name: "seller_7" })).toBeFocused();
    const now = page.getByRole("region", { name: "Answers now" });
    await expect(now.getByRole("img", { name: `is_scammer: ${(scammer * 100).toFixed(0)} %` })).toBeVisible();
    await expect(page.getByRole("list", { name: "Timeline" }).getByText("while the sender waited")).toBeVisible();
  } finally {
    await service.stop();
  }
});
