import { expect, expectAccessible, open, press, test, type } from "./stage";

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

test("what was read before is shown when it cannot be read again", async ({ page, person }) => {
  await page.clock.install();
  await open(page, "/console/account", "Account");
  const sessions = page.getByRole("list", { name: "Sessions" });
  await expect(sessions.getByRole("listitem")).toHaveCount(1);
  await press(page, "link", "Keys");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Keys");
  // By then it is old.
  await page.clock.fastForward("01:00");
  let refused = 0;
  await page.route("**/v1/me?include=*", async (route) => {
    refused++;
    await route.fulfill({ status: 400, json: { error: { code: "bad_request", message: "not today" } } });
  });
  await press(page, "link", "Account");
  await expect(page.getByText(person.email).first()).toBeVisible();
  await expect(sessions.getByRole("listitem")).toHaveCount(1);
  expect(refused).toBe(1);
});

test("an owner asks for the deletion of the account by its name, and takes it back", async ({ page, register, service }) => {
  const name = "Maple Cycles";
  const owner = await register(name);
  await page.context().addCookies((await owner.api.storageState()).cookies);
  await open(page, "/console/account", "Account");
  await press(page, "button", "Delete the account…");
  const dialog = page.getByRole("dialog", { name: `Delete the account ${name}?` });
  await expect(dialog).toContainText("all objects with their events, answers, labels and reviews");
  await expect(dialog.getByRole("button", { name: "Delete it in seven days" })).toBeDisabled();
  await expectAccessible(page);
  await type(page, `Type ${name} to go on`, name);
  await page.keyboard.press("Enter");
  await expect(page.getByText(/Everything in it is deleted on /)).toBeVisible();
  const deletesAt = async () => ((await (await owner.api.get("/v1/me")).json()) as { deletes_at?: string }).deletes_at;
  const days = (Date.parse((await deletesAt()) ?? "") - Date.now()) / 86_400_000;
  expect(days).toBeGreaterThan(6.9);
  expect(days).toBeLessThanOrEqual(7);
  await expect.poll(() => service.mails(owner.email).join("\n")).toContain("every owner can take that back in the console");

  await open(page, "/console/overview", "Overview");
  await press(page, "link", "take that back under Account");
  await press(page, "button", "Take it back");
  await expect(page.getByText("The account stays.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Delete the account…" })).toBeVisible();
  expect(await deletesAt()).toBeUndefined();
});

test("reviews at random are switched on where the queue says how reviews come about", async ({ page, person }) => {
  await open(page, "/console/queue", "Queue");
  await press(page, "link", "Set it under Account");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Account");
  await type(page, "Share of analyzed objects, in percent", "12");
  await page.keyboard.press("Enter");
  await expect(page.getByText("The share is a number from 0 to 10.")).toBeVisible();
  await type(page, "Share of analyzed objects, in percent", "2.5");
  await type(page, "Queue of these reviews", "blind spots");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Saved.")).toBeVisible();
  expect(await (await person.api.get(SETTINGS)).json()).toMatchObject({ audit_rate_pct: 2.5, audit_queue: "blind spots" });
});
