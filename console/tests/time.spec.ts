// What takes days: a session that ends by its age, yesterday's figures, the runway of a balance, quality by week. The service is started again
// ahead of the clock; the browser stays in the present.
import type { Page } from "@playwright/test";

import { fillLabelled, send } from "./labelled";
import { Service } from "./service";
import { expect, open, PASSWORD, press, registerAt, test, type, WORDS, type Person } from "./stage";

const DAY = 24;

interface Alone {
  service: Service;
  person: Person;
}

/** A service of its own, whose time may pass. */
const alone = test.extend<{ alone: Alone }>({
  alone: async ({ playwright, page }, use) => {
    const service = await Service.start(WORDS);
    const person = await registerAt(service, playwright.request);
    await page.context().addCookies((await person.api.storageState()).cookies);
    await use({ service, person });
    await person.api.dispose();
    await service.stop();
  },
});

/** Signs in again by the API: the session of the days before has ended. */
async function signInAgain({ service, person }: Alone, page: Page): Promise<void> {
  await send(person.api, "post", "/auth/console/login", { email: person.email, password: PASSWORD });
  await page.context().addCookies((await person.api.storageState()).cookies);
  expect((await person.api.get(`${service.origin}/v1/me`)).ok()).toBe(true);
}

alone("a session ends after a day, and is renewed on the spot", async ({ page, alone: { service, person } }) => {
  await open(page, `${service.origin}/console/keys`, "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "Typed the day before");
  await service.startAgainAhead(DAY - 1);
  expect((await person.api.get("/v1/me")).status(), "not before a day is over").toBe(200);
  await service.startAgainAhead(DAY + 1);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("alertdialog", { name: "Your session has ended" });
  await expect(dialog).toContainText(person.email);
  await type(page, "Password", PASSWORD);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog", { name: "Your new secret" })).toBeVisible();
});

alone("figures say what happened yesterday, firings are shown by day, and the balance lasts as long as it was used", async ({ page, alone }) => {
  const { service, person } = alone;
  await fillLabelled(person.api, { objects: 6, labelled: 0 });
  const { firings } = (await (await person.api.get("/v1/rule_firings")).json()) as { firings: unknown[] };
  const figure = (list: string, name: string) => page.getByRole("list", { name: list }).getByRole("listitem").filter({ hasText: name });
  await open(page, `${service.origin}/console/overview`, "Overview");
  await expect(figure("Figures", "Objects")).toContainText("6 new today");
  await service.startAgainAhead(DAY);
  await signInAgain(alone, page);
  await send(person.api, "post", "/v1/objects/newcomer/events", { wait: true, events: [{ type: "message", content: "kept promises" }] });
  await open(page, `${service.origin}/console/overview`, "Overview");
  await expect(figure("Figures", "Objects")).toContainText("1 new today, 6 yesterday");
  await expect(figure("Figures", "Rules fired today")).toContainText(`0${firings.length} yesterday`);
  await expect(page.getByRole("img", { name: new RegExp(`^Firings by UTC day, ${firings.length} firings since \\d+ \\w+\\. `) })).toBeVisible();
  await open(page, `${service.origin}/console/billing`, "Billing");
  await expect(figure("Figures", "Lasts for")).toContainText(/year|month|day/);
  await service.startAgainAhead(40 * DAY);
  await signInAgain(alone, page);
  await open(page, `${service.origin}/console/billing`, "Billing");
  await expect(figure("Figures", "Lasts for")).toContainText("nothing is spent at present");
});

alone("quality is shown week by week", async ({ page, alone }) => {
  const { service, person } = alone;
  await fillLabelled(person.api, { objects: 60, labelled: 60 });
  await service.startAgainAhead(7 * DAY);
  await signInAgain(alone, page);
  const labels = Array.from({ length: 30 }, (_, index) => ({ object_id: `seller-${index}`, signal: "is_scammer", value: index % 5 < 2 }));
  await send(person.api, "post", "/v1/labels", { labels });
  await open(page, `${service.origin}/console/quality`, "Quality");
  const weeks = page.getByRole("region", { name: "By week" });
  await expect(weeks.getByRole("img", { name: "Accuracy of is_scammer by week, with 95 % intervals" })).toBeVisible();
  await weeks.getByRole("button", { name: "Show as table" }).press("Enter");
  await expect(weeks.getByRole("row")).toHaveCount(3);
});
