import type { Locator, Page } from "@playwright/test";

import { expect, expectAccessible, expectAccessibleInBothThemes, open, press, test, type } from "./stage";

const AT = "2026-11-01T10:00:00.000000Z";

test("members and the audit log show the account as it is, and health says so where the server lacks it", async ({ page, person }) => {
  await open(page, "/console/members", "Members");
  await expect(page.getByRole("grid", { name: "Members" }).getByText(person.email, { exact: true })).toBeVisible();
  await expectAccessibleInBothThemes(page);
  await open(page, "/console/audit-log", "Audit log");
  await expect(page.getByRole("grid", { name: "Audit log" }).getByRole("row").nth(1)).toContainText(person.email);
  await expectAccessibleInBothThemes(page);
  const offered = (await person.api.get("/v1/operator/health")).status() !== 404;
  await open(page, "/console/health", "Health");
  await expect(page.getByText("This server does not offer it yet")).toHaveCount(offered ? 0 : 1);
  await expectAccessibleInBothThemes(page);
});

test("an owner invites, changes a role and removes a member", async ({ page, person }) => {
  const me = (await (await person.api.get("/v1/me")).json()) as { user_id: string };
  const members = [
    { user_id: me.user_id, email: person.email, role: "owner", created_at: AT },
    { user_id: "01a1ed21-4b36-7eb7-aa82-5325ebf66ede", email: "robin@example.com", role: "viewer", created_at: AT },
  ];
  const sent: string[] = [];
  await page.route(/\/v1\/(members|invitations)/, async (route) => {
    const request = route.request();
    if (request.method() !== "GET") sent.push(`${request.method()} ${new URL(request.url()).pathname.split("/").slice(0, 3).join("/")}${new URL(request.url()).search} ${request.postData() ?? ""}`.trim());
    if (request.url().includes("/invitations")) await route.fulfill({ json: { invitations: [] } });
    else if (request.method() === "DELETE") await route.fulfill({ json: { keys: [] } });
    else await route.fulfill({ json: { members } });
  });
  await open(page, "/console/members", "Members");
  await expect(page.getByRole("grid", { name: "Members" }).getByText("robin@example.com", { exact: true })).toBeVisible();
  await expectAccessible(page);
  await press(page, "button", "Invite");
  await type(page, "Email", "sam@example.com");
  await page.keyboard.press("Enter");
  await expect(page.getByText("A link was mailed to sam@example.com.")).toBeVisible();
  const role = page.getByRole("button", { name: /Role of robin@example.com/ });
  await reach(page, role);
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "Analyst" }).press("Enter");
  await expect(page.getByText("robin@example.com is analyst now.")).toBeVisible();
  await reach(page, page.getByRole("button", { name: "Actions for robin@example.com" }));
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Remove…" }).press("Enter");
  await page.getByRole("dialog").getByRole("checkbox").press("Space");
  await press(page, "button", "Remove the member");
  await expect(page.getByText("The member is removed. They had made no keys.")).toBeVisible();
  expect(sent).toEqual(['POST /v1/invitations {"email":"sam@example.com","role":"analyst"}', 'PATCH /v1/members {"role":"analyst"}', "DELETE /v1/members?revoke_keys=true"]);
});

test("a viewer is offered nothing that would be refused", async ({ page, person }) => {
  await person.api.post("/v1/objects/a/events", { data: { wait: true, events: [{ type: "message", content: "hello" }] } });
  await person.api.post("/v1/reviews", { data: { object_id: "a", queue: "second look" } });
  const me = (await (await person.api.get("/v1/me")).json()) as object;
  await page.route("**/v1/me", (route) => route.fulfill({ json: { ...me, role: "viewer", member_role: "viewer" } }));
  await open(page, "/console/objects/a", "a");
  await expect(page.getByRole("list", { name: "Timeline" }).getByText("hello")).toBeVisible();
  for (const name of [/^Yes$/, "Analyze again", "Open a review", /^What moved/]) await expect(page.getByRole("button", { name })).toHaveCount(0);
  await open(page, "/console/queue?queue=second look", "Queue second look");
  await expect(page.getByText("Your role does not include this")).toBeVisible();
  await press(page, "link", "List");
  await expect(page.getByRole("grid", { name: "Reviews" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Work through it" })).toHaveCount(0);
  await open(page, "/console/quality", "Quality");
  await expect(page.getByText("An admin or an owner can fit one.")).toBeVisible();
  for (const screen of ["billing", "members", "audit-log"]) {
    await page.goto(`/console/${screen}`);
    await expect(page.getByText("Your role does not include this")).toBeVisible();
  }
});

/** Goes to a control in the row of robin@example.com with arrow keys. */
async function reach(page: Page, control: Locator): Promise<void> {
  await page.getByRole("grid", { name: "Members" }).getByRole("row", { name: /robin@example.com/ }).focus();
  for (let presses = 0; presses < 6; presses++) {
    if (await control.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("ArrowRight");
  }
  throw new Error("the control cannot be reached with arrow keys");
}

test("the audit log shows differences, and health what to do", async ({ page, person }) => {
  const entry = {
    id: "1",
    at: AT,
    actor: { kind: "user", id: "u", name: person.email },
    action: "signal.updated",
    target: { kind: "signal", id: "is_scammer" },
    address: "192.0.2.1",
    request_id: "r-1",
    before: { instructions: "Is this a scam?", enabled: true },
    after: { instructions: "Is this user a scammer?", enabled: true },
  };
  await page.route(/\/v1\/audit_log/, (route) => route.fulfill({ json: { entries: [entry] } }));
  await page.route("**/v1/operator/health", (route) =>
    route.fulfill({ json: { database: { state: "good", advice: "" }, disk: { state: "worry", advice: "4 % are free. Delete old backups, or enlarge the disk." } } }),
  );
  await open(page, "/console/audit-log", "Audit log");
  await page.getByRole("grid", { name: "Audit log" }).getByRole("row", { name: /signal.updated/ }).press("Enter");
  await expect(page.getByRole("dialog").getByRole("cell", { name: "Is this user a scammer?" })).toBeVisible();
  await expect(page.getByRole("dialog").getByRole("rowheader", { name: "enabled" })).toHaveCount(0);
  await expectAccessible(page);
  await open(page, "/console/health", "Health");
  await expect(page.getByText("1 of 2 parts need somebody.")).toBeVisible();
  await expect(page.getByText("Delete old backups, or enlarge the disk.")).toBeVisible();
  await expectAccessible(page);
});
