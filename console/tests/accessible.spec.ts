// axe on every page in both themes, with an account that has something to show.
import type { Browser, Page } from "@playwright/test";

import { SCREENS } from "../src/screens/registry";
import { addressIn, expect, expectAccessible, problemsOf, settled, test as base, type Sample } from "./stage";

const THRESHOLD = ["sign-in", "register", "forgot", "reset?token=x", "verify?token=x", "confirm?token=x", "withdraw?token=x", "invitation?token=x"];

interface Visitor {
  page: Page;
  problems: string[];
}

async function visit(browser: Browser, baseURL: string, cookies: Sample["cookies"]): Promise<Visitor> {
  const context = await browser.newContext({ baseURL, viewport: { width: 1440, height: 900 } });
  await context.addCookies(cookies);
  const page = await context.newPage();
  return { page, problems: await problemsOf(page) };
}

/** One page for all screens: nothing is changed on them, and scripts are compiled once. */
const test = base.extend<object, { stranger: Visitor; member: Visitor }>({
  stranger: [
    async ({ browser, service }, use) => {
      const visitor = await visit(browser, service.origin, []);
      await use(visitor);
      await visitor.page.context().close();
    },
    { scope: "worker" },
  ],
  member: [
    async ({ browser, service, sample }, use) => {
      const visitor = await visit(browser, service.origin, sample.cookies);
      await use(visitor);
      await visitor.page.context().close();
    },
    { scope: "worker" },
  ],
});

async function check({ page, problems }: Visitor, path: string): Promise<void> {
  problems.length = 0;
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
  await settled(page);
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await expectAccessible(page, "contrast");
  await expectRoomForLargeText(page);
  expect(problems, "errors of the page").toEqual([]);
}

/** At 200 % text nothing is pushed out of the page. */
async function expectRoomForLargeText(page: Page): Promise<void> {
  const beyond = await page.evaluate(() => {
    const root = document.documentElement;
    root.style.fontSize = "200%";
    const beyond = root.scrollWidth - root.clientWidth;
    root.style.fontSize = "";
    return beyond;
  });
  expect(beyond, "overflow at 200 % text").toBeLessThanOrEqual(0);
}

for (const path of THRESHOLD) {
  test(`/console/${path} is accessible in both themes`, async ({ stranger }) => check(stranger, `/console/${path}`));
}

for (const screen of SCREENS) {
  test(`${screen.name} is accessible in both themes`, async ({ member, sample }) => check(member, addressIn(screen.path, sample)));
}
