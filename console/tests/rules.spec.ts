import { choose, expect, expectAccessible, open, press, test, type } from "./stage";

test("a rule is replayed before it is saved, runs in shadow, goes live and is deleted", async ({ page, person }) => {
  const events = [{ type: "message", content: "Pay me by gift card and I ship today, not through the site" }];
  const verdict = await person.api.post("/v1/objects/s1/events", { data: { wait: true, signals: ["is_scammer"], events } });
  const { answers } = (await verdict.json()) as { answers: { noul: number }[] };
  expect(answers[0]?.noul).toBeGreaterThan(0.2);

  const labelled = await person.api.put("/v1/objects/s1/labels/is_scammer", { data: { value: true } });
  expect(labelled.status()).toBe(200);
  await open(page, "/console/rules", "Rules");
  await expect(page.getByText("No rules yet")).toBeVisible();
  await press(page, "link", "New rule");
  await expect(page.getByRole("heading", { level: 1, name: "New rule" })).toBeVisible();
  await page.getByRole("textbox", { name: "Condition" }).focus();
  await page.keyboard.type("is_scammer > 0.2");
  await page.keyboard.press("Escape");
  await expect(page.getByText("1 object matches now")).toBeVisible();
  await press(page, "button", "Replay");
  await expect(page.getByText("1 firing", { exact: true })).toBeVisible();
  await expect(page.getByRole("grid", { name: "Precision and recall by signal" }).getByRole("row").nth(1)).toContainText(/is_scammer\s*100 %\s*100 %/);
  await expect(page.getByRole("grid", { name: "Objects it would have fired for" }).getByRole("link", { name: "s1" })).toBeVisible();
  await expectAccessible(page);

  await type(page, "Name", "Likely scam");
  await choose(page, "radio", /^Send an email/);
  await expect(page.getByRole("radio", { name: /^Shadow/ })).toBeChecked();
  await type(page, "To", "trust@example.com");
  await press(page, "button", "Create the rule");
  await expect(page.getByRole("heading", { level: 1, name: "Likely scam" })).toBeVisible();

  const again = await person.api.post("/v1/objects/s2/events", { data: { wait: true, signals: ["is_scammer"], events } });
  expect(again.status()).toBe(200);
  await page.getByRole("tab", { name: "Firings" }).click();
  const firing = page.getByRole("grid", { name: "Firings" }).getByRole("row").nth(1);
  await expect(firing).toContainText("s2");
  await expect(firing).toContainText("shadow");

  await page.getByRole("tab", { name: "Rule", exact: true }).click();
  await choose(page, "radio", /^Live/);
  await press(page, "button", "Save the rule");
  await expect(page.getByText("Saved.")).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ name: "Likely scam", mode: "live", action_config: { to: "trust@example.com" } }]);

  await press(page, "button", "Delete…");
  await page.getByRole("button", { name: "Delete the rule" }).press("Enter");
  await expect(page.getByText("No rules yet")).toBeVisible();
});

test("an error of the action stands beside its field, and a review rule names its queue", async ({ page, person }) => {
  await open(page, "/console/rules/new-rule", "New rule");
  await page.getByRole("textbox", { name: "Condition" }).focus();
  await page.keyboard.type("events(reported, 24h) >= 3");
  await page.keyboard.press("Escape");
  await type(page, "Queue", " ");
  await page.getByRole("button", { name: "Create the rule" }).press("Enter");
  await expect(page.getByLabel("Queue", { exact: true })).toHaveAccessibleDescription(/must have 1 to 64 characters/);
  await type(page, "Queue", "reports");
  await choose(page, "checkbox", "is_scammer");
  await press(page, "button", "Create the rule");
  await expect(page.getByRole("heading", { level: 1, name: "events(reported, 24h) >= 3" })).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ mode: "shadow", action_type: "review", action_config: { queue: "reports", signals: ["is_scammer"] } }]);
});
