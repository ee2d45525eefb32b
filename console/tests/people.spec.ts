import type { Locator, Page } from "@playwright/test";

import { invitation, join } from "./invite";
import { send } from "./labelled";
import { expect, expectAccessible, open, press, test, type, type Person } from "./stage";

test("members and the audit log show the account as it is, and health says so where the server lacks it", async ({ page, person }) => {
  await open(page, "/console/members", "Members");
  await expect(page.getByRole("grid", { name: "Members" }).getByText(person.email, { exact: true })).toBeVisible();
  await open(page, "/console/audit-log", "Audit log");
  await expect(page.getByRole("grid", { name: "Audit log" }).getByRole("row").nth(1)).toContainText(person.email);
  const offered = (await person.api.get("/v1/operator/health")).status() !== 404;
  await open(page, "/console/health", "Health");
  await expect(page.getByText("This server does not offer it yet")).toHaveCount(offered ? 0 : 1);
});

test("an owner invites, changes a role and removes a member", async ({ browser, page, person, service }) => {
  const [robin, sam] = [`robin-${person.email}`, `sam-${person.email}`];
  const elsewhere = await browser.newPage({ baseURL: service.origin });
  await join(elsewhere, await invitation(person, service, robin, "viewer"));
  await open(page, "/console/members", "Members");
  await expect(page.getByRole("grid", { name: "Members" }).getByText(robin, { exact: true })).toBeVisible();
  await expectAccessible(page);
  await press(page, "button", "Invite");
  await type(page, "Email", sam);
  await page.keyboard.press("Enter");
  await expect(page.getByText(`A link was mailed to ${sam}.`)).toBeVisible();
  await expect(page.getByRole("grid", { name: "Invitations" }).getByText(sam, { exact: true })).toBeVisible();
  await expect.poll(() => service.mails(sam).length).toBe(1);

  await reach(page, robin, page.getByRole("button", { name: `Role of ${robin}` }));
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "Analyst" }).press("Enter");
  await expect(page.getByText(`${robin} is analyst now.`)).toBeVisible();
  expect(await membersOf(person)).toEqual({ [person.email]: "owner", [robin]: "analyst" });
  await reach(page, robin, page.getByRole("button", { name: `Actions for ${robin}` }));
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Remove…" }).press("Enter");
  await page.getByRole("dialog").getByRole("checkbox").press("Space");
  await press(page, "button", "Remove the member");
  await expect(page.getByText("The member is removed. They had made no keys.")).toBeVisible();
  expect(await membersOf(person)).toEqual({ [person.email]: "owner" });
  expect((await elsewhere.request.get("/v1/me")).status(), "all their sessions have ended").toBe(401);
  await elsewhere.close();
});

/** The role of each member, as the service has it. */
async function membersOf(person: Person): Promise<Record<string, string>> {
  const { members } = (await (await person.api.get("/v1/members")).json()) as { members: { email: string; role: string }[] };
  return Object.fromEntries(members.map(({ email, role }) => [email, role]));
}

test("a viewer is offered nothing that would be refused", async ({ page, register, service }) => {
  const owner = await register();
  await send(owner.api, "post", "/v1/objects/a/events", { wait: true, events: [{ type: "message", content: "hello" }] });
  await send(owner.api, "post", "/v1/reviews", { object_id: "a", queue: "second look" });
  await join(page, await invitation(owner, service, `viewer-${owner.email}`, "viewer"));
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

/** Goes to a control in the row of a member with arrow keys. */
async function reach(page: Page, member: string, control: Locator): Promise<void> {
  await page.getByRole("grid", { name: "Members" }).getByRole("row", { name: member }).focus();
  for (let presses = 0; presses < 6; presses++) {
    if (await control.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("ArrowRight");
  }
  throw new Error("the control cannot be reached with arrow keys");
}

test("the audit log shows what a change has changed", async ({ page, person }) => {
  const { signals } = (await (await person.api.get("/v1/signals")).json()) as { signals: { key: string; type: string; criteria: unknown }[] };
  const { type: kind, criteria } = signals.find(({ key }) => key === "is_scammer") ?? {};
  await send(person.api, "put", "/v1/signals/is_scammer", { type: kind, criteria, instructions: "Does this user cheat others?" });
  await open(page, "/console/audit-log", "Audit log");
  const row = page.getByRole("grid", { name: "Audit log" }).getByRole("row", { name: /signal.updated/ });
  await expect(row).toContainText("is_scammer");
  await row.press("Enter");
  const difference = page.getByRole("dialog", { name: "signal.updated" });
  await expect(difference.getByRole("cell", { name: "Does this user cheat others?" })).toBeVisible();
  await expect(difference.getByRole("rowheader", { name: "instructions" })).toBeVisible();
  await expect(difference.getByRole("rowheader", { name: "enabled" }), "it is as it was").toHaveCount(0);
  await expectAccessible(page);
});

test("the audit log offers the actions that there are, and keeps its filter when it cannot be read", async ({ page, person }) => {
  void person;
  await open(page, "/console/audit-log?action=no.such", "Audit log");
  const log = page.getByRole("grid", { name: "Audit log" });
  await expect(log.getByRole("row", { name: /session.opened/ }).first(), "an action that there is not filters nothing").toBeVisible();
  await page.route("**/v1/audit_log?*action=rule.created*", (route) => route.fulfill({ status: 500, json: { error: { code: "internal_error", message: "the disk is full" } } }));
  await page.getByRole("button", { name: /Action/ }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("rule.created");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("The disk is full.");
  await expect(page.getByRole("button", { name: /rule\.created.*Action/ })).toBeVisible();
  await press(page, "link", "Show everything");
  await expect(log.getByRole("row", { name: /session.opened/ }).first()).toBeVisible();
});

// No service that runs a story has a disk that is full.
test("health says what to do", async ({ page, person }) => {
  void person;
  await page.route("**/v1/operator/health", (route) =>
    route.fulfill({ json: { database: { state: "good", advice: "" }, disk: { state: "worry", advice: "4 % are free. Delete old backups, or enlarge the disk." } } }),
  );
  await open(page, "/console/health", "Health");
  await expect(page.getByText("1 of 2 parts need somebody.")).toBeVisible();
  await expect(page.getByText("Delete old backups, or enlarge the disk.")).toBeVisible();
  await expectAccessible(page);
});
