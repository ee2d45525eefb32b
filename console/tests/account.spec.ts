import { expect, open, press, test, type } from "./stage";

const SETTINGS = "/v1/settings";

test("other sessions are listed and ended; a password change ends them too", async ({ page, person, playwright, service }) => {
  const headers = { "X-Auspex-Session": "cookie", Origin: service.origin, "User-Agent": "Mozilla/5.0 (Windows NT 10.0) Firefox/140.0" };
  const elsewhere = await playwright.request.newContext({ baseURL: service.origin, extraHTTPHeaders: headers });
  const signIn = () => elsewhere.post("/auth/console/login", { data: { email: person.email, password: person.password } });
  expect((await signIn()).status()).toBe(200);
  await open(page, "/console/account", "Account");
  await press(page, "button", /End the session of Firefox on Windows/);
  await expect(page.getByText("Firefox on Windows")).toHaveCount(0);
  expect((await elsewhere.get("/v1/me")).status()).toBe(401);

  expect((await signIn()).status()).toBe(200);
  await type(page, "Present password", "not the password");
  await type(page, "New password", "a quite different staple battery");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Present password")).toHaveAccessibleDescription(/wrong|not/i);
  await type(page, "Present password", person.password);
  await page.keyboard.press("Enter");
  await expect(page.getByText("Your password is changed")).toBeVisible();
  expect((await elsewhere.get("/v1/me")).status()).toBe(401);
  await elsewhere.dispose();
});

test("notifications are switched, retention says what it deletes", async ({ page, person }) => {
  await open(page, "/console/account", "Account");
  const low = page.getByRole("switch", { name: /Low balance/ });
  await low.focus();
  await page.keyboard.press("Space");
  await expect(low).not.toBeChecked();
  await page.reload();
  await expect(page.getByRole("switch", { name: /Low balance/ })).not.toBeChecked();

  await page.getByRole("radio", { name: /Forever/ }).focus();
  await page.keyboard.press("ArrowDown");
  await type(page, "Days", "30");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Keep events for 30 days?" });
  await expect(dialog).toContainText("raw events that are older than that");
  await page.keyboard.press("Escape");
  expect(((await (await person.api.get(SETTINGS)).json()) as { event_retention: string }).event_retention).toBe("forever");
  await press(page, "button", "Save");
  await press(page, "button", "Delete and save");
  await expect(page.getByText("Saved.")).toBeVisible();
  expect(await (await person.api.get(SETTINGS)).json()).toMatchObject({ event_retention: "days", event_retention_days: 30 });
});

test("a setting that is refused says so, and stays as it was", async ({ page, person }) => {
  void person;
  await page.route("**/v1/settings", async (route) => {
    if (route.request().method() !== "PATCH") return route.continue();
    await route.fulfill({ status: 403, json: { error: { code: "forbidden", message: "the account is suspended" } } });
  });
  await open(page, "/console/account", "Account");
  const asks = page.getByRole("switch", { name: /Ask new signals about existing objects/ });
  const before = await asks.isChecked();
  await asks.press("Space");
  await expect(page.getByText("The account is suspended.")).toBeVisible();
  expect(await asks.isChecked()).toBe(before);
});
