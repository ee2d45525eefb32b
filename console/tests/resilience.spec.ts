// What must survive: a session that ends, a connection that breaks, a service that cannot work, a second tab.
import { Service } from "./service";
import { conditionEditor, expect, open, PASSWORD, press, test, type, WORDS } from "./stage";

test("a session that ends while typing is renewed on the spot, and the request repeated", async ({ page, person }) => {
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "Typed before the end");
  // The session of the page is that of `person.api`; it is ended from there.
  expect((await person.api.post("/auth/console/logout")).status()).toBe(204);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("alertdialog", { name: "Your session has ended" });
  await expect(dialog).toContainText(person.email);
  await type(page, "Password", person.password);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog", { name: "Your new secret" })).toBeVisible();
  await press(page, "button", "I have stored it");
  await expect(page.getByRole("rowheader", { name: "Typed before the end" })).toBeVisible();
});

test("nothing typed is lost while the connection is gone", async ({ page, person, context }) => {
  void person;
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "Typed offline");
  await context.setOffline(true);
  await page.keyboard.press("Enter");
  await expect(page.getByText("The service cannot be reached; check your connection.")).toBeVisible();
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("Typed offline");
  await context.setOffline(false);
  await press(page, "button", "Create the key");
  await press(page, "button", "I have stored it");
  await expect(page.getByRole("rowheader", { name: "Typed offline" })).toBeVisible();
});

test("a service that is not ready is said, and noticed when it is back", async ({ page, person }) => {
  void person;
  await open(page, "/console/overview", "Overview");
  let ready = false;
  await page.route(/\/(v1\/.*|readyz)$/, async (route) => {
    if (ready) return route.continue();
    await route.fulfill({ status: 503, json: { error: { code: "not_ready", message: "the database does not respond" } } });
  });
  await page.getByRole("link", { name: "Keys" }).press("Enter");
  await expect(page.getByText("The service cannot work right now")).toBeVisible();
  ready = true;
  await page.getByRole("button", { name: "Try now" }).press("Enter");
  await expect(page.getByText("The service cannot work right now")).toHaveCount(0);
});

test("nothing typed is lost while the service cannot work", async ({ page, person }) => {
  await open(page, "/console/rules/new-rule?when=is_scammer%20%3E%200.9", "New rule");
  await type(page, "Name", "Typed before the 503");
  await type(page, "Queue", "scams");
  let ready = false;
  await page.route(/\/(v1\/.*|readyz)$/, async (route) => {
    if (ready) return route.continue();
    await route.fulfill({ status: 503, json: { error: { code: "not_ready", message: "the database does not respond" } } });
  });
  await page.keyboard.press("Enter");
  await expect(page.getByText("The service cannot work right now")).toBeVisible();
  await type(page, "Queue", "typed during the 503");
  ready = true;
  await press(page, "button", "Try now");
  await expect(page.getByText("The service cannot work right now")).toHaveCount(0);
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("Typed before the 503");
  await expect(page.getByLabel("Queue", { exact: true })).toHaveValue("typed during the 503");
  await expect(conditionEditor(page)).toHaveText("is_scammer > 0.9");
  await press(page, "button", "Create the rule");
  await expect(page.getByRole("heading", { level: 1, name: "Typed before the 503" })).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ when: "is_scammer > 0.9", action_config: { queue: "typed during the 503" } }]);
});

test("signing out in one tab reaches the other", async ({ page, person, context }) => {
  void person;
  await open(page, "/console/keys", "Keys");
  const other = await context.newPage();
  await open(other, "/console/account", "Account");
  await press(page, "button", "Sign out");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  expect(new URL(other.url()).searchParams.get("next")).toBe("/console/account");
});

test("a change that needs recent proof asks for it and goes on", async ({ page }) => {
  const service = await Service.start({ ...WORDS, AUSPEX_RECENT_PROOF_SECONDS: "2" });
  try {
    await page.goto(`${service.origin}/console/`);
    await type(page, "Name of the account", "Acme");
    await type(page, "Email", "proof@example.com");
    await type(page, "Password", PASSWORD);
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
    await page.goto(`${service.origin}/console/account`);
    const refused = () => page.evaluate(async () => (await fetch("/v1/me/mfa/setup", { method: "POST" })).status);
    await expect.poll(refused).toBe(403);
    await press(page, "button", "Set up two-factor");
    const proof = page.getByRole("dialog", { name: "Confirm that it is you" });
    await expect(proof.getByLabel("Password", { exact: true })).toBeFocused();
    await page.keyboard.type("not the password");
    await page.keyboard.press("Enter");
    await expect(proof.getByLabel("Password", { exact: true })).toHaveAccessibleDescription(/wrong|not/i);
    await type(page, "Password", PASSWORD);
    await page.keyboard.press("Enter");
    await expect(page.getByRole("dialog", { name: "Set up two-factor" })).toBeVisible();
  } finally {
    await service.stop();
  }
});
