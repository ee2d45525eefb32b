import type { Page } from "@playwright/test";

import { CHALLENGE, plugIn } from "./authenticator";
import { choose, expect, expectAccessible, open, press, test, type } from "./stage";
import { totp } from "./totp";

async function addPasskey(page: Page, name: string): Promise<void> {
  await open(page, "/console/account", "Account");
  await press(page, "button", "Add a passkey");
  await type(page, "Name", name);
  await page.keyboard.press("Enter");
  await expect(page.getByText(`You can sign in with ${name} now`)).toBeVisible();
}

/** Leaves for the sign-in page, which has then suggested a passkey to nobody. */
async function signOut(page: Page): Promise<void> {
  const suggested = page.waitForResponse(CHALLENGE);
  await press(page, "button", "Sign out");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign in");
  await suggested;
}

test("a passkey is added, listed, renamed, signed in with, and removed", async ({ page, person, service }) => {
  const device = await plugIn(page);
  await open(page, "/console/account", "Account");
  await expect(page.getByText("No passkeys yet")).toBeVisible();
  await addPasskey(page, "Laptop");
  const list = page.getByRole("list", { name: "Passkeys" });
  await expect(list.getByRole("listitem")).toHaveCount(1);
  await expect(list).toContainText("not used yet");
  await expectAccessible(page);
  expect(await device.credentials()).toMatchObject([{ isResidentCredential: true, rpId: "localhost" }]);

  await press(page, "button", "Rename Laptop");
  await type(page, "Name", "Desk");
  await page.keyboard.press("Enter");
  await expect(list).toContainText("Desk");
  await expect(list).not.toContainText("Laptop");

  // The same device is told that it has one.
  await press(page, "button", "Add a passkey");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("This device has a passkey for you already.");
  await page.keyboard.press("Escape");

  await device.leave();
  await signOut(page);
  await expectAccessible(page);
  await device.touchWhenAsked(() => press(page, "button", "Sign in with a passkey"));
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
  await open(page, "/console/account", "Account");
  await expect(list).toContainText("last used");

  await press(page, "button", "Remove Desk");
  await press(page, "button", "Remove the passkey");
  await expect(page.getByText("No passkeys yet")).toBeVisible();
  await device.leave();
  await signOut(page);
  await device.touchWhenAsked(() => press(page, "button", "Sign in with a passkey"));
  await expect(page.getByRole("alert")).toContainText("The passkey was not accepted.");
  await expect.poll(() => service.mails(person.email).join("\n")).toContain("A passkey was removed");

  // The way back in is the mail, as before.
  await device.leave();
  await press(page, "link", "Forgot your password?");
  await type(page, "Email", person.email);
  await page.keyboard.press("Enter");
  const link = () => service.mails(person.email).join("\n").match(/http\S+\/console\/reset\?token=[\w%-]+/)?.[0];
  await expect.poll(link).toBeTruthy();
  await page.goto(link() ?? "");
  await choose(page, "radio", /^It was me/);
  await type(page, "New password", "a quite different staple battery");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Your password is changed")).toBeVisible();
  await type(page, "Email", person.email);
  await type(page, "Password", "a quite different staple battery");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
});

test("a passkey is the second factor after a password", async ({ page, person }) => {
  const device = await plugIn(page);
  await addPasskey(page, "Laptop");
  await press(page, "button", "Set up with an app");
  const secret = (await page.getByRole("dialog", { name: "Set up two-factor" }).locator("code").first().textContent()) ?? "";
  await type(page, "Code from the app", totp(secret, Date.now()));
  await page.keyboard.press("Enter");
  await press(page, "button", "I have stored them");
  await device.leave();
  await signOut(page);
  await type(page, "Email", person.email);
  await type(page, "Password", person.password);
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Authenticator code")).toBeFocused();
  await device.touchWhenAsked(() => press(page, "button", "Use a passkey instead"));
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
});

test("a passkey alone is the second factor after a password, and turns two-factor off", async ({ page, person }) => {
  const device = await plugIn(page);
  await addPasskey(page, "Laptop");
  await device.leave();
  await press(page, "button", "Set up with a passkey");
  await expect(page.getByRole("dialog", { name: "Set up two-factor" })).toContainText("your last passkey cannot be removed");
  await expectAccessible(page);
  await device.touchWhenAsked(() => press(page, "button", "Turn on with a passkey"));
  await expect(page.getByRole("list", { name: "Recovery codes" }).getByRole("listitem")).toHaveCount(8);
  await press(page, "button", "I have stored them");
  const state = page.getByText("After your password, one of your passkeys is asked for. 8 recovery codes left.");
  await expect(state).toBeVisible();
  await press(page, "button", "Remove Laptop");
  await press(page, "button", "Remove the passkey");
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("two-factor");
  await page.keyboard.press("Escape");

  await device.leave();
  await signOut(page);
  await type(page, "Email", person.email);
  await type(page, "Password", person.password);
  await page.keyboard.press("Enter");
  await expect(page.getByText(/Show a code, or one of your passkeys\.$/)).toBeVisible();
  await expectAccessible(page);
  await device.touchWhenAsked(() => press(page, "button", "Use a passkey instead"));
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");

  await open(page, "/console/account", "Account");
  await expect(state, "no recovery code was spent").toBeVisible();
  await device.leave();
  await press(page, "button", "Turn off…");
  const turningOff = page.getByRole("dialog", { name: "Turn two-factor off" });
  await press(page, "button", "Use a recovery code instead");
  await expect(turningOff.getByLabel("Recovery code")).toBeVisible();
  await press(page, "button", "Use a passkey instead");
  await expect(turningOff.getByLabel("Recovery code")).toHaveCount(0);
  await type(page, "Password", person.password);
  await device.touchWhenAsked(() => press(page, "button", "Turn two-factor off"));
  await expect(page.getByText("Two-factor is off.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Set up with a passkey" })).toBeVisible();
  expect(await (await page.request.get("/v1/me/mfa")).json()).toMatchObject({ enabled: false });
});

test("a passkey that the browser suggests signs in", async ({ page, person }) => {
  await plugIn(page);
  await addPasskey(page, "Laptop");
  await press(page, "button", "Sign out");
  // Somebody is there, and so Chromium takes the suggestion at once.
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("First steps");
  expect(((await (await page.request.get("/v1/me")).json()) as { email: string }).email).toBe(person.email);
});
