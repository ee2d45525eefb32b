import { expect, expectAccessibleInBothThemes, open, PASSWORD, press, test, WORDS } from "./stage";

const OPERATOR = "ops@example.com";
const PARTS = ["Queues", "Lag of analyses", "Analyzer", "Webhook deliveries", "Mail", "Database", "Nodes", "Disk"];

test.use({ settings: { ...WORDS, AUSPEX_OPERATORS: OPERATOR } });

test("an operator who has proved the address sees how the install is", async ({ page, service, register }) => {
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
  await press(page, "link", "Health");
  for (const part of PARTS) await expect(page.getByRole("heading", { name: part, exact: true })).toBeVisible();
  await expect(page.getByText("Set AUSPEX_SMTP_URL to send it.")).toBeVisible();
  await expectAccessibleInBothThemes(page);

  await register("Maple Cycles");
  await register("Quick Deals");
  // The service's own pages, only shorter, so that three accounts are more than one.
  await page.route("**/v1/operator/tenants?*", (route) => route.continue({ url: route.request().url().replace("limit=50", "limit=2") }));
  await press(page, "link", "Tenants");
  await expect(page.getByRole("heading", { level: 1, name: "Tenants" })).toBeFocused();
  await expect(page.getByText("2 accounts shown")).toBeVisible();
  const row = page.getByRole("grid", { name: "Tenants" }).getByRole("row", { name: /^Ops/ });
  await expect(row).toContainText("$");
  await expect(row).toContainText("0 B");
  await expect(row).toContainText("open");
  await press(page, "button", "Load more");
  await expect(page.getByRole("row", { name: /^Quick Deals/ })).toBeVisible();
  await expect(page.getByRole("button", { name: "Load more" })).toHaveCount(0);
  await expectAccessibleInBothThemes(page);
});
