import { may } from "../src/api/may";
import { SCREENS } from "../src/screens/registry";
import { addressIn, expect, expectAccessible, open, press, settled, test } from "./stage";

const IN_NAVIGATION = SCREENS.filter((screen) => screen.navigation && !screen.operators);

test("every screen is in the navigation with a title and one h1 of its own", async ({ page, person }) => {
  void person;
  await open(page, "/console/overview", "Overview");
  await expect(page.getByRole("navigation", { name: "Screens" }).getByRole("link")).toHaveText(IN_NAVIGATION.map((screen) => screen.name).sort(byOrder));
  for (const screen of IN_NAVIGATION) {
    await page.getByRole("navigation").getByRole("link", { name: screen.name, exact: true }).press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(screen.name);
    await expect(page).toHaveTitle(`${screen.name} · Auspex`);
    expect(new URL(page.url()).pathname).toBe(screen.path);
    await expect(page.getByRole("navigation").getByRole("link", { name: screen.name, exact: true })).toHaveAttribute("aria-current", "page");
  }
});

const groups = ["Start", "Work", "Configure", "Account"];
const rankOf = (name: string) => {
  const index = IN_NAVIGATION.findIndex((screen) => screen.name === name);
  return groups.indexOf(IN_NAVIGATION[index]?.navigation?.group ?? "") * 100 + index;
};
const byOrder = (one: string, other: string) => rankOf(one) - rankOf(other);

test("the skip link is first, shortcuts work and are listed", async ({ page, person }) => {
  void person;
  await open(page, "/console/overview", "Overview");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
  await page.keyboard.press("Alt+Shift+K");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Keys");
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Shortcuts" });
  await expect(help).toContainText("Audit log");
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await expect(help).toHaveCount(0);
  await press(page, "button", "Create a key");
  await page.keyboard.type("?");
  await expect(page.getByLabel("Name", { exact: true }), "a text field keeps its keys").toHaveValue("?");
});

test("the theme follows the choice and is remembered", async ({ page, person }) => {
  void person;
  await page.emulateMedia({ colorScheme: "light" });
  await open(page, "/console/overview", "Overview");
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await page.getByRole("radio", { name: "Dark" }).focus();
  await page.keyboard.press("Space");
  await expect.poll(background).not.toBe(light);
  await page.reload();
  await expect(page.getByRole("radio", { name: "Dark" })).toBeChecked();
  expect(await background()).not.toBe(light);
});

test("at 390 px the navigation collapses, and nothing is wider than the screen", async ({ page, person }) => {
  void person;
  await page.setViewportSize({ width: 390, height: 844 });
  await open(page, "/console/overview", "Overview");
  await expect(page.getByRole("navigation", { name: "Screens" })).toBeHidden();
  await press(page, "button", "Navigation");
  await page.getByRole("link", { name: "Keys" }).press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Keys");
  await expect(page.getByRole("navigation", { name: "Screens" })).toBeHidden();
  for (const screen of IN_NAVIGATION) {
    await open(page, screen.path, screen.name);
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(excess, screen.name).toBe(0);
  }
});

test("with text twice as large every screen still fits", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  await page.setViewportSize({ width: 1280, height: 900 });
  const found: string[] = [];
  for (const screen of SCREENS.filter(({ operators }) => !operators)) {
    await open(page, addressIn(screen.path, sample), /./);
    await settled(page);
    await page.evaluate(() => {
      document.documentElement.style.fontSize = "200%";
    });
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (excess > 0) found.push(`${screen.name}: ${excess} px`);
  }
  expect(found, "wider than the window").toEqual([]);
});

test("an unknown address says so, inside and outside", async ({ page, person }) => {
  void person;
  await open(page, "/console/no-such-screen", "There is no such page");
});

test("roles have what beyond their reach is not offered", () => {
  expect(may("owner", "money.pay")).toBe(true);
  expect(may("admin", "money.pay")).toBe(false);
  expect(may("admin", "members.write")).toBe(true);
  expect(may("analyst", "labels.write")).toBe(true);
  expect(may("analyst", "money.read")).toBe(false);
  expect(may("analyst", "explain")).toBe(true);
  expect(may("viewer", "labels.write")).toBe(false);
  expect(may("viewer", "explain")).toBe(false);
});

test("where the browser stores nothing, everything else works", async ({ page, person }) => {
  void person;
  await page.addInitScript(() => Object.defineProperty(window, "localStorage", { get: () => { throw new DOMException("denied", "SecurityError"); } }));
  await open(page, "/console/explore?q=is_scammer%20%3E%200", "Explore");
  await page.getByRole("radio", { name: "Dark" }).focus();
  await page.keyboard.press("Space");
  await expect(page.getByRole("radio", { name: "Dark" })).toBeChecked();
  await press(page, "button", "Save this view");
  await page.keyboard.type("Mine");
  await page.keyboard.press("Enter");
  await expect(page.getByText("This browser does not let the console keep views.")).toBeVisible();
});
