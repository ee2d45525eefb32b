import { receiver } from "./receiver";
import { choose, conditionEditor, expect, expectAccessible, expectAccessibleInBothThemes, open, press, test, type } from "./stage";

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
  await conditionEditor(page).focus();
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
  await page.getByRole("tab", { name: "Rule", exact: true }).press("ArrowRight");
  const firing = page.getByRole("grid", { name: "Firings" }).getByRole("row").nth(1);
  await expect(firing).toContainText("s2");
  await expect(firing).toContainText("shadow");

  await page.getByRole("tab", { name: "Firings" }).press("ArrowLeft");
  await choose(page, "radio", /^Live/);
  await press(page, "button", "Save the rule");
  await expect(page.getByText("Saved.", { exact: true })).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ name: "Likely scam", mode: "live", action_config: { to: "trust@example.com" } }]);

  await press(page, "button", "Delete…");
  await page.getByRole("button", { name: "Delete the rule" }).press("Enter");
  await expect(page.getByText("No rules yet")).toBeVisible();
});

test("a rule goes live from its page, and a firing leads to its delivery", async ({ page, person }) => {
  const { server, url, received, respondWith } = await receiver();
  respondWith(204);
  const made = await person.api.post("/v1/webhooks", { data: { url, events: ["rule.triggered"] } });
  const { endpoint } = (await made.json()) as { endpoint: { id: string } };
  const created = await person.api.post("/v1/rules", { data: { name: "Any", when: "is_scammer > 0", mode: "shadow", action_type: "webhook", action_config: { endpoint_id: endpoint.id } } });
  const { id } = (await created.json()) as { id: string };
  await open(page, `/console/rules/${id}`, "Any");
  await expect(page.getByText("It is on, in shadow: it records when it would fire, and sends nothing.")).toBeVisible();
  await press(page, "button", "Go live…");
  await expect(page.getByText(/^In the last 30 days it would have fired 0 times for 0 objects/)).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Go live", exact: true }).press("Enter");
  await expect(page.getByText("It is on and live: it acts when it fires.")).toBeVisible();
  expect((await person.api.post("/v1/objects/s1/events", { data: { wait: true, events: [{ type: "message", content: "Hello" }] } })).ok()).toBe(true);
  await expect.poll(() => received.length).toBe(1);
  await page.getByRole("tab", { name: "Rule", exact: true }).press("ArrowRight");
  // A list takes the focus as a whole first.
  await page.getByRole("grid", { name: "Firings" }).getByRole("row").nth(1).focus();
  await page.getByRole("link", { name: "Its delivery" }).press("Enter");
  await expect(page.getByRole("dialog", { name: "Delivery of rule.triggered" })).toContainText("HTTP 204");
  server.close();
});

test("an error of the action stands beside its field, and a review rule names its queue", async ({ page, person }) => {
  await open(page, "/console/rules/new-rule", "New rule");
  await conditionEditor(page).focus();
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

test("the endpoint of a rule is tested before the rule is saved", async ({ page, person }) => {
  const { server, url, received, respondWith } = await receiver();
  const created = await person.api.post("/v1/webhooks", { data: { url } });
  expect(created.status()).toBe(201);
  await open(page, "/console/rules/new-rule?when=is_scammer%20%3E%200.9", "New rule");
  await choose(page, "radio", /^Call a webhook/);
  await press(page, "button", "Send a test");
  await expect(page.getByText("The endpoint did not take the test: the receiver answered 410.")).toBeVisible();
  await expect(page.getByRole("link", { name: "Its deliveries" })).toBeVisible();
  respondWith(200);
  await press(page, "button", "Send a test");
  await expect(page.getByText("The test was sent (HTTP 200).")).toBeVisible();
  expect(received.map(({ body }) => (JSON.parse(body) as { event: string }).event)).toEqual(["endpoint.test", "endpoint.test"]);
  await expectAccessible(page);
  await press(page, "button", "Create the rule");
  await expect(page.getByRole("heading", { level: 1, name: "is_scammer > 0.9" })).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ action_type: "webhook", action_config: { endpoint_id: ((await created.json()) as { endpoint: { id: string } }).endpoint.id } }]);
  server.close();
});

test("the mail and the chat message of a rule are tested before the rule is saved", async ({ page, person, service }) => {
  void person;
  await open(page, "/console/rules/new-rule?when=is_scammer%20%3E%200.9", "New rule");
  await type(page, "Name", "Likely scam");
  await choose(page, "radio", /^Send an email/);
  await press(page, "button", "Send a test");
  await expect(page.getByText("To: it is not an email address.")).toBeVisible();
  await type(page, "To", "trust@example.org");
  await type(page, "Subject", "Look at this");
  await press(page, "button", "Send a test");
  await expect(page.getByText("The test was sent: written to a file, because this service has no mail server.")).toBeVisible();
  const [mail] = service.mails("trust@example.org");
  expect(mail).toContain("Subject: [Test] Look at this");
  expect(mail).toContain('Test of the rule "Likely scam"');

  const { server, url, received, respondWith } = await receiver();
  await choose(page, "radio", /^Post to Slack/);
  await expect(page.getByText("The test was sent"), "of another action").toHaveCount(0);
  await type(page, "Incoming webhook URL", url);
  await press(page, "button", "Send a test");
  await expect(page.getByText("Slack did not take the test: Slack answered 410: no longer here.")).toBeVisible();
  respondWith(200);
  await press(page, "button", "Send a test");
  await expect(page.getByText("The test was sent: the message was posted to Slack.")).toBeVisible();
  expect(received.map(({ body }) => (JSON.parse(body) as { text: string }).text)).toEqual(["Test of Likely scam", "Test of Likely scam"]);
  await expectAccessibleInBothThemes(page);
  server.close();
  await choose(page, "radio", /^Open a review/);
  await expect(page.getByRole("button", { name: "Send a test" }), "a review sends nothing").toHaveCount(0);
});

test("Enter in the field that stands in for the editor does not send the form", async ({ page, person }) => {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/assets/Editor-*.js", async (route) => {
    await released;
    await route.continue();
  });
  await open(page, "/console/rules/new-rule", "New rule");
  await page.locator("input[name=condition]").focus();
  await page.keyboard.type("is_scammer > 0.9");
  await page.keyboard.press("Enter");
  release();
  await expect(conditionEditor(page)).toBeFocused();
  await expect(conditionEditor(page)).toHaveText("is_scammer > 0.9");
  await page.keyboard.press("Enter");
  await type(page, "Queue", "scams");
  await press(page, "button", "Create the rule");
  await expect(page.getByRole("heading", { level: 1, name: "is_scammer > 0.9" })).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules, "the one of the button").toMatchObject([{ action_config: { queue: "scams" } }]);
});

test("a test whose outcome is not known yet says so", async ({ page, person }) => {
  const created = await person.api.post("/v1/webhooks", { data: { url: "http://127.0.0.1:9/hooks" } });
  expect(created.status()).toBe(201);
  await page.route("**/v1/rules/test", (route) => route.fulfill({ json: { outcome: "waiting", detail: "no attempt has ended yet", delivery_id: "01a1e3fc-4b14-7197-b5c3-6518dae37f50" } }));
  await open(page, "/console/rules/new-rule?when=is_scammer%20%3E%200.9", "New rule");
  await choose(page, "radio", /^Call a webhook/);
  await press(page, "button", "Send a test");
  await expect(page.getByText("The test is on its way: no attempt has ended yet.")).toBeVisible();
  await page.unroute("**/v1/rules/test");
  await page.route("**/v1/rules/test", (route) => route.fulfill({ status: 429, json: { error: { code: "rate_limited", message: "too many attempts; try again later" } } }));
  await press(page, "button", "Send a test");
  await expect(page.getByRole("alert")).toContainText("Too many attempts; try again later.");
});
