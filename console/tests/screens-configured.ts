// Pictures of signals, rules and webhooks in use.
import { shoot, take } from "./camera";
import { expect, MODEL, test } from "./stage";

test.use({ settings: MODEL });

test("signals, rules and webhooks in use", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  for (const tab of ["trials", "versions", "backfill"]) await take(page, `signal-${tab}`, `/console/signals/off_platform?tab=${tab}`);
  await take(page, "rule-firings", `/console/rules/${sample.ruleId}?tab=firings`);
  await take(page, "rules-firings", "/console/rules?tab=firings");
  for (const tab of ["deliveries", "verify"]) await take(page, `webhooks-${tab}`, `/console/webhooks?tab=${tab}`);
  await take(page, "endpoint-settings", `/console/webhooks/${sample.endpointId}?tab=settings`);

  await page.goto("/console/signals/trust_score");
  await page.getByLabel("Question").fill("How far would you trust this user with your own money?");
  await page.getByLabel("Add events").fill("Pay me by gift card and I ship today\nNo refunds");
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.getByText(/^Over 2 events/)).toBeVisible();
  await page.getByRole("button", { name: "Strike out event 1" }).click();
  await page.getByRole("button", { name: "Ask again" }).click();
  await expect(page.getByText(/^Over 1 of 2 events/)).toBeVisible();
  await shoot(page, "signal-playground");

  await page.goto(`/console/rules/${sample.ruleId}`);
  await page.getByRole("button", { name: "Replay" }).click();
  await expect(page.getByText("On whom")).toBeVisible();
  await shoot(page, "rule-replay");
  await page.getByRole("button", { name: "Send a test" }).click();
  await expect(page.getByRole("link", { name: "Its deliveries" })).toBeVisible();
  await shoot(page, "rule-tested");

  await page.goto(`/console/webhooks/${sample.endpointId}`);
  await page.getByRole("button", { name: "Details of" }).first().click();
  await expect(page.getByText("Request headers")).toBeVisible();
  await shoot(page, "endpoint-delivery");
});
