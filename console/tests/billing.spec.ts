import { fillLabelled, send } from "./labelled";
import { Payments } from "./payments";
import { expect, expectAccessibleInBothThemes, open, press, test as stage, type, WORDS } from "./stage";

const test = stage.extend<object, { payments: Payments }>({
  payments: [
    // biome-ignore lint: Playwright wants the object pattern.
    async ({}, use) => {
      const payments = await Payments.start();
      await use(payments);
      await payments.stop();
    },
    { scope: "worker" },
  ],
  settings: [async ({ payments }, use) => use({ ...WORDS, ...payments.settings }), { scope: "worker" }],
});

test("an owner tops up at the payment provider and comes back", async ({ page, person }) => {
  await open(page, "/console/billing", "Billing");
  await expect(page.getByRole("list", { name: "Figures" }).getByText("$5.00")).toBeVisible();
  await expect(page.getByText("Nothing was analyzed in the last 30 days")).toBeVisible();
  await type(page, "Amount in USD", "1");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("From $5.00 to $1,000.00.");
  await type(page, "Amount in USD", "25");
  await press(page, "button", "Pay $25.00");
  await expect(page.getByRole("heading", { name: "Pay 25 usd" })).toBeVisible();
  await page.getByRole("link", { name: "Back" }).press("Enter");
  await expect(page.getByText("The payment was cancelled. Nothing was charged.")).toBeVisible();
  await type(page, "Amount in USD", "40");
  await press(page, "button", "Pay $40.00");
  await page.getByRole("link", { name: "Pay now" }).press("Enter");
  await expect(page.getByText("$40.00 are credited.")).toBeVisible();
  await expect(page.getByRole("list", { name: "Figures" }).getByText("$45.00")).toBeVisible();
  await expectAccessibleInBothThemes(page);
  expect((await (await person.api.get("/v1/billing")).json()) as object).toMatchObject({ balance_cents: 4500 });
});

test("money is accounted for by day, source, model and signal, and bulk runs open", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 6, labelled: 0 });
  await send(person.api, "put", "/v1/signals/off_platform", { type: "noul", instructions: "Does the user try to move the deal off the platform?" });
  await send(person.api, "post", "/v1/signals/off_platform/backfill");
  await expect.poll(async () => (await (await person.api.get("/v1/signals/off_platform/backfill")).json()).backfill?.status).toBe("done");
  await open(page, "/console/billing", "Billing");
  const signals = page.getByRole("grid", { name: "Usage by signal" });
  await expect(signals.getByRole("row", { name: /is_scammer/ })).toContainText("Likely scam");
  await expect(page.getByText(/^An estimate for 30 days, not what was charged: \$[\d.]+ in 1 day would be \$[\d.]+ in 30 days/)).toBeVisible();
  await expect(signals.getByRole("row", { name: /buyer_intent/ })).toContainText(/No rule reads this signal; it costs about \$[\d.]+ a month\./);
  await expect(page.getByRole("grid", { name: "Usage by source" }).getByText("While the sender waited")).toBeVisible();
  await expect(page.getByRole("grid", { name: "Usage by model" }).getByText("auspex-words")).toBeVisible();
  await page.getByRole("grid", { name: "Ledger" }).getByRole("row", { name: /Analysis, 6 analyses/ }).press("Enter");
  await expect(page.getByRole("dialog").getByRole("grid", { name: "Charges of the run" }).getByText("seller-0")).toBeVisible();
  await expectAccessibleInBothThemes(page);
});
