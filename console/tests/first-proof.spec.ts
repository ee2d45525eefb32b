// Somebody registers the address of somebody else and sets things up; then the owner of the address follows the link in their mail.
import type { Page } from "@playwright/test";

import { send } from "./labelled";
import type { Service } from "./service";
import { statusWith, tokenOf, type SigningKey } from "./signing";
import { choose, expect, expectAccessibleInBothThemes, PASSWORD, press, test, type Person } from "./stage";

/** One key, which would look like three, the last of them written backwards. */
const KEY_NAME = "shop, import, \u202egnp.yek\u2066";
const HIDDEN = /[\u200b-\u200f\u202a-\u202e\u2066-\u2069]/;
const RULES = 11;

/** What was set up in the name of the address; the key works until it is ended. */
async function setUp(stranger: Person): Promise<SigningKey> {
  const key = await send(stranger.api, "post", "/v1/api_keys", { name: KEY_NAME });
  for (let index = 1; index <= RULES; index++) {
    await send(stranger.api, "post", "/v1/rules", { name: `Rule ${index}`, when: "is_scammer > 0.9", action_type: "review", action_config: { queue: "scams" } });
  }
  return key as unknown as SigningKey;
}

async function linkTo(service: Service, email: string, page: "verify" | "reset"): Promise<string> {
  const link = () => new RegExp(`http\\S+/console/${page}\\?token=[\\w%-]+`).exec(service.mails(email).join("\n"))?.[0] ?? "";
  await expect.poll(link).not.toBe("");
  return link();
}

/** What was set up is listed, each name for itself, and no more of them than one reads. */
async function expectListed(page: Page): Promise<void> {
  const named = (text: RegExp) => page.getByRole("listitem").filter({ hasText: text });
  await expect(named(/^a password$/)).toBeVisible();
  await expect(named(/^1 open session$/)).toBeVisible();
  await expect(named(/^shop, import, ⟨U\+202E⟩gnp\.yek⟨U\+2066⟩$/)).toBeVisible();
  await expect(named(/^Rule \d+$/)).toHaveCount(8);
  await expect(named(/^and 3 more$/)).toBeVisible();
  expect(await page.locator("main").textContent()).not.toMatch(HIDDEN);
  await expect(page.getByRole("radio", { name: /^It was me/ })).not.toBeChecked();
  await expect(page.getByRole("radio", { name: /^It was not me.*Ends the password, 1 open session and 1 API key\. Turns off 11 rules\./ })).not.toBeChecked();
  await press(page, "button", "Confirm the address");
  await expect(page.getByRole("heading", { level: 1 }), "nothing is decided by silence").toHaveText("Confirm your address");
}

test("what a stranger set up for an address is shown to its owner, and ends", async ({ page, register, service }) => {
  const stranger = await register();
  const key = await setUp(stranger);
  expect(await statusWith(service.origin, tokenOf(key))).toBe(200);
  await page.goto(await linkTo(service, stranger.email, "verify"));
  await expectListed(page);
  await expectAccessibleInBothThemes(page);
  await page.setViewportSize({ width: 390, height: 900 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBeLessThanOrEqual(0);
  await choose(page, "radio", /^It was not me/);
  await press(page, "button", "Confirm the address");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Your address is confirmed");
  await expect(page.getByText("Ended, as you asked: the password, 1 open session and 1 API key.")).toBeVisible();
  await expect(page.getByRole("link", { name: "Choose a new password" })).toHaveAttribute("href", "/console/forgot");
  expect((await stranger.api.get("/v1/me")).status(), "their session").toBe(401);
  expect((await stranger.api.post("/auth/console/login", { data: { email: stranger.email, password: PASSWORD } })).status(), "their password").toBe(401);
  await expect.poll(() => statusWith(service.origin, tokenOf(key)), "their key").toBe(401);

  // The owner of the address comes in by a new password, which has nothing left to ask about.
  const headers = { Origin: service.origin, "X-Auspex-Session": "cookie" };
  expect((await page.request.post("/auth/console/password/forgot", { headers, data: { email: stranger.email } })).status()).toBe(202);
  await page.goto(await linkTo(service, stranger.email, "reset"));
  await expect(page.getByLabel("New password", { exact: true })).toBeFocused();
  await expect(page.getByRole("radio")).toHaveCount(0);
  await page.keyboard.type("a quite different staple battery");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Your password is changed")).toBeVisible();
  const login = await page.request.post("/auth/console/login", { headers, data: { email: stranger.email, password: "a quite different staple battery" } });
  expect(login.status()).toBe(200);
  const { rules } = (await (await page.request.get("/v1/rules")).json()) as { rules: { enabled: boolean; disabled_reason?: string }[] };
  expect(rules.map(({ enabled, disabled_reason }) => `${enabled} ${disabled_reason}`)).toEqual(Array(RULES).fill("false address proved"));
});

test("who set an account up themselves keeps everything in it", async ({ page, register, service }) => {
  const owner = await register();
  const key = await setUp(owner);
  await page.goto(await linkTo(service, owner.email, "verify"));
  await expectListed(page);
  await choose(page, "radio", /^It was me/);
  await press(page, "button", "Confirm the address");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Your address is confirmed");
  expect(await (await owner.api.get("/v1/me")).json()).toMatchObject({ email: owner.email, email_verified: true });
  expect(await statusWith(service.origin, tokenOf(key))).toBe(200);
  const { rules } = (await (await owner.api.get("/v1/rules")).json()) as { rules: { enabled: boolean }[] };
  expect(rules.filter(({ enabled }) => enabled).length).toBe(RULES);
});

test("it was not me ends everything also where this browser is signed in to the account", async ({ page, person, service }) => {
  await page.goto(await linkTo(service, person.email, "verify"));
  await choose(page, "radio", /^It was not me/);
  await press(page, "button", "Confirm the address");
  await expect(page.getByText("Ended, as you asked: the password and 1 open session.")).toBeVisible();
  expect((await person.api.get("/v1/me")).status()).toBe(401);
});

test("a link is followed only once it is known what it would end", async ({ page, register, service }) => {
  const person = await register();
  let answer: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  let isFailing = true;
  await page.route("**/auth/console/first_proof", async (route) => {
    await answered;
    if (isFailing) await route.fulfill({ status: 500, json: { error: { code: "internal_error", message: "the disk is full" } } });
    else await route.continue();
  });
  await page.goto(await linkTo(service, person.email, "verify"));
  await expect(page.getByText("Loading", { exact: true })).toBeAttached();
  const confirm = page.getByRole("button", { name: "Confirm the address" });
  await expect(confirm).toHaveCount(0);
  answer();
  await expect(page.getByRole("alert")).toContainText("The disk is full.");
  await expect(confirm).toHaveCount(0);
  await expectAccessibleInBothThemes(page);
  isFailing = false;
  await press(page, "button", "Try again");
  await expect(page.getByRole("listitem").filter({ hasText: /^a password$/ })).toBeVisible();
  await expect(confirm).toBeVisible();
});
