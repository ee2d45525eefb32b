import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import type { APIResponse } from "@playwright/test";

import { receiver } from "./receiver";
import { choose, conditionEditor, expect, expectAccessible, open, press, test, type } from "./stage";

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
  await expect(page.getByText("Saved.")).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ name: "Likely scam", mode: "live", action_config: { to: "trust@example.com" } }]);

  await press(page, "button", "Delete…");
  await page.getByRole("button", { name: "Delete the rule" }).press("Enter");
  await expect(page.getByText("No rules yet")).toBeVisible();
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
  await expect(page.getByText("The endpoint did not take the test: HTTP 410")).toBeVisible();
  respondWith(200);
  await press(page, "button", "Send a test");
  await expect(page.getByText("The endpoint took the test (HTTP 200).")).toBeVisible();
  expect(received.map(({ body }) => (JSON.parse(body) as { event: string }).event)).toEqual(["endpoint.test", "endpoint.test"]);
  await expectAccessible(page);
  await press(page, "button", "Create the rule");
  await expect(page.getByRole("heading", { level: 1, name: "is_scammer > 0.9" })).toBeVisible();
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: object[] };
  expect(rules).toMatchObject([{ action_type: "webhook", action_config: { endpoint_id: ((await created.json()) as { endpoint: { id: string } }).endpoint.id } }]);
  server.close();
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

test("a test without an outcome is not asked about for ever", async ({ page, person }) => {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const created = await person.api.post("/v1/webhooks", { data: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks` } });
  expect(created.status()).toBe(201);
  // The first answer of the service, that the test is on its way, again and again; errors for a while.
  let asked = 0;
  let isFailing = true;
  let first: APIResponse | undefined;
  await page.route("**/v1/webhook_deliveries?*", async (route) => {
    first ??= await route.fetch();
    if (asked > 0 && isFailing) await route.fulfill({ status: 500, json: { error: { code: "internal_error", message: "the disk is full" } } });
    else await route.fulfill({ response: first });
    asked++;
  });
  await page.clock.install();
  await open(page, "/console/rules/new-rule?when=is_scammer%20%3E%200.9", "New rule");
  await choose(page, "radio", /^Call a webhook/);
  await press(page, "button", "Send a test");
  await expect(page.getByText("The test is on its way.")).toBeVisible();
  await expect(page.getByText(/^What came of the test could not be read: .*disk is full/)).toBeVisible();
  isFailing = false;
  const noOutcome = page.getByText("No outcome yet.");
  await expect(async () => {
    await page.clock.fastForward(700);
    await expect(noOutcome).toBeVisible({ timeout: 1 });
  }).toPass({ intervals: [20] });
  expect(asked).toBe(60);
  await page.clock.fastForward(60_000);
  await page.getByRole("link", { name: "Its deliveries" }).focus();
  expect(asked, "it asks no more").toBe(60);
  await expectAccessible(page);
  server.closeAllConnections();
  server.close();
});
