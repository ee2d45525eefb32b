// What each role sees: a member who was invited by mail walks every screen that is offered, and is refused nothing.
import { may, type Role } from "../src/api/may";
import { SCREENS, type ScreenEntry } from "../src/screens/registry";
import { invitation, join } from "./invite";
import { fillAccount } from "./sample";
import { fillConfiguration } from "./sample-configuration";
import { addressIn, expect, open, settled, test, type Sample } from "./stage";

const ROLES: readonly Role[] = ["admin", "analyst", "viewer"];

/** Parts of screens that have an address of their own. */
const PARTS = [
  "/console/signals/$key?tab=trials",
  "/console/signals/$key?tab=versions",
  "/console/signals/$key?tab=backfill",
  "/console/rules/$ruleId?tab=firings",
  "/console/webhooks?tab=deliveries",
  "/console/webhooks?tab=verify",
  "/console/webhooks/$endpointId?tab=settings",
  "/console/queue?queue=second%20look&view=list",
  "/console/queue?queue=second%20look",
  "/console/quality?signal=is_scammer",
  "/console/explore?q=is_scammer%20%3E%200.1",
];

const isOffered = (role: Role, { operators, needs }: ScreenEntry): boolean => !operators && (!needs || may(role, needs));

for (const role of ROLES) {
  test(`a member who was invited as ${role} is offered what the role may, and refused none of it`, async ({ page, register, service }) => {
    // Some thirty addresses, most of them loaded afresh.
    test.slow();
    const owner = await register();
    const configuration = await fillConfiguration(owner.api, service.origin);
    const sample: Sample = { ...configuration, objectId: await fillAccount(owner.api), cookies: [] };
    expect((await owner.api.post("/v1/reviews", { data: { object_id: sample.objectId, queue: "second look" } })).ok()).toBe(true);
    const refused: string[] = [];
    page.on("response", (response) => {
      if (response.status() === 403) refused.push(`${response.request().method()} ${response.url()} on ${page.url()}`);
    });
    await join(page, await invitation(owner, service, `${role}-${owner.email}`, role));

    const navigation = page.getByRole("navigation", { name: "Screens" });
    const offered = SCREENS.filter((screen) => isOffered(role, screen));
    const named = offered.filter((screen) => screen.navigation).map((screen) => screen.name);
    expect((await navigation.getByRole("link").allTextContents()).sort(), "the navigation").toEqual(named.toSorted());
    for (const name of named) {
      await navigation.getByRole("link", { name, exact: true }).press("Enter");
      await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
      await settled(page);
    }
    const inLists = offered.filter((screen) => !screen.navigation).map((screen) => screen.path);
    for (const path of [...inLists, ...PARTS]) {
      await open(page, addressIn(path, sample), /./);
      await settled(page);
    }
    for (const screen of SCREENS.filter((each) => !each.operators && !isOffered(role, each))) {
      await page.goto(screen.path);
      await expect(page.getByText("Your role does not include this"), screen.name).toBeVisible();
    }
    expect(refused).toEqual([]);
  });
}
