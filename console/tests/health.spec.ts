import { expect, expectAccessibleInBothThemes, open, PASSWORD, test, WORDS } from "./stage";

const OPERATOR = "ops@example.com";
const PARTS = ["Queues", "Lag of analyses", "Analyzer", "Webhook deliveries", "Mail", "Database", "Nodes", "Disk"];

test.use({ settings: { ...WORDS, AUSPEX_OPERATORS: OPERATOR } });

test("an operator who has proved the address sees how the install is", async ({ page, service }) => {
  const headers = { "X-Auspex-Session": "cookie", Origin: service.origin };
  const account = { tenant_name: "Ops", email: OPERATOR, password: PASSWORD };
  expect((await page.request.post("/auth/console/register", { data: account, headers })).status()).toBe(201);
  await open(page, "/console/health", "Health");
  await expect(page.getByText("For operators of this install")).toBeVisible();
  await expect(page.getByRole("link", { name: "Health" })).toHaveCount(0);

  const token = () => service.mails(OPERATOR).join("\n").match(/\/console\/verify\?token=([\w%-]+)/)?.[1];
  await expect.poll(token).toBeTruthy();
  expect((await page.request.post("/auth/console/verify", { data: { token: token() }, headers })).status()).toBe(204);
  await page.reload();
  await page.getByRole("link", { name: "Health" }).click();
  for (const part of PARTS) await expect(page.getByRole("heading", { name: part, exact: true })).toBeVisible();
  await expect(page.getByText("Set AUSPEX_SMTP_URL to send it.")).toBeVisible();
  await expectAccessibleInBothThemes(page);
});
