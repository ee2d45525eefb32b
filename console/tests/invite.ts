// Members who are invited by mail, and join by its link.
import type { Page } from "@playwright/test";

import type { Role } from "../src/api/may";
import { send } from "./labelled";
import type { Service } from "./service";
import { expect, open, PASSWORD, type, type Person } from "./stage";

/** Invites somebody, and returns the address in the mail. */
export async function invitation(owner: Person, service: Service, email: string, role: Role): Promise<string> {
  await send(owner.api, "post", "/v1/invitations", { email, role });
  await expect.poll(() => service.mails(email).length).toBe(1);
  return /\/console\/invitation\?token=[\w-]+/.exec(service.mails(email)[0] ?? "")?.[0] ?? "";
}

/** Joins the account by that address, in a browser where nobody is signed in. */
export async function join(page: Page, address: string): Promise<void> {
  await open(page, address, "Join the account");
  await type(page, "Password", PASSWORD);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
}
