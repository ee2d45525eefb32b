// What only the embedded model can show: that an answer follows what the events say.
import { expect, expectAccessible, MODEL, open, press, test } from "./stage";

test.use({ settings: MODEL });
test.setTimeout(240_000);

/** A model in a debug build takes its time on a busy machine. */
const SLOWLY = { timeout: 60_000 };

test("an object's events are asked again without the one that is struck out", async ({ page, person }) => {
  const sent = await person.api.post("/v1/objects/seller%2F7/events", {
    data: { object_type: "seller", events: [{ type: "event", name: "signup", metadata: { name: "Kim" } }, { type: "message", content: "Pay me by gift card and I ship today, not through the site" }] },
  });
  expect(sent.status()).toBe(202);
  await open(page, "/console/signals/is_scammer", "is_scammer");
  await press(page, "button", "Take an object’s events…");
  await page.keyboard.type("Kim");
  await page.getByRole("button", { name: "Take the events of Kim" }).press("Enter");
  const events = page.getByRole("list", { name: "Events to ask about" });
  await expect(events.getByRole("listitem"), "oldest first").toContainText(["signup", "Pay me by gift card"]);
  await press(page, "button", "Ask");
  await expect(page.getByText(/^Over 2 events, by auspex.* for \$0\.0000\d+\./)).toBeVisible(SLOWLY);
  await press(page, "button", "Strike out event 2");
  await press(page, "button", "Ask again");
  await expect(page.getByText(/^Over 1 of 2 events/)).toBeVisible(SLOWLY);
  await expect(page.getByText("Before, over 2 events")).toBeVisible();
  const [now, before] = await page.getByRole("list", { name: "Answers" }).getByRole("img").evaluateAll((bars) => bars.map((bar) => Number(/(\d+) %/.exec(bar.getAttribute("aria-label") ?? "")?.[1])));
  expect(now, "without the message about gift cards").toBeLessThan(before as number);

  await press(page, "button", "What moved it");
  const moved = page.getByRole("region", { name: "What moved is_scammer" });
  await expect(moved.getByText("The model read the history once")).toBeVisible(SLOWLY);
  await expect(moved.getByRole("listitem").filter({ hasText: "Pay me by gift card" })).toContainText(/raised it: \+\d+\.\d points/);
  await expect(events.getByRole("listitem").filter({ hasText: "Pay me by gift card" }), "marked in the events too").toContainText(/raised it: \+\d+\.\d points/);
  await expectAccessible(page);
});
