import { send, WORDS } from "./labelled";
import { expect, expectAccessible, expectAccessibleInBothThemes, open, press, test } from "./stage";

test.use({ settings: WORDS });

test("an object is read, labelled, put into a queue, analyzed again and deleted", async ({ page, person }) => {
  await send(person.api, "post", "/v1/rules", { name: "Everything", when: "is_scammer > 0.01", action_type: "email", action_config: { to: "trust@example.com" } });
  for (const content of ["Is it still there?", "Pay by gift card"]) {
    await send(person.api, "post", "/v1/objects/seller%2F7/events", { wait: true, object_type: "seller", events: [{ type: "event", name: "signup", metadata: { name: "Kim" } }, { type: "message", content }] });
  }
  await open(page, "/console/objects/seller%2F7", "Kim");
  const timeline = page.getByRole("list", { name: "Timeline" });
  await expect(timeline.getByText("Pay by gift card")).toBeVisible();
  await expect(timeline.getByText("Rule Everything fired")).toBeVisible();
  await expect(page.getByRole("img", { name: /^is_scammer over 2 analyses/ })).toBeVisible();

  const yes = page.getByRole("group", { name: "Label is_scammer" }).getByRole("button", { name: "Yes" });
  await yes.press("Enter");
  await expect(yes).toHaveAttribute("aria-pressed", "true");
  await expect(timeline.getByText(/labelled is_scammer Yes/)).toBeVisible();
  await page.getByRole("checkbox", { name: "Events" }).press("Space");
  await expect(timeline.getByText("Pay by gift card")).toBeHidden();
  await expect(timeline.getByText(/labelled is_scammer Yes/)).toBeVisible();
  await yes.press("Enter");
  await expect(yes).toHaveAttribute("aria-pressed", "false");

  await press(page, "button", "Open a review");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("second look");
  await page.keyboard.press("Enter");
  await expect(timeline.getByText("Review opened in second look")).toBeVisible();

  await press(page, "button", "What moved is_scammer");
  await expect(page.getByText("This server does not offer it yet")).toBeVisible();
  await expectAccessibleInBothThemes(page);
  await page.getByRole("button", { name: "Close the explanation" }).press("Enter");

  await press(page, "button", "Analyze again");
  await expect(page.getByRole("img", { name: /^is_scammer over 3 analyses/ })).toBeVisible();

  await page.getByRole("button", { name: "More about this object" }).press("Enter");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog").getByText("4 events and the summary of older ones")).toBeVisible();
  await press(page, "button", "Delete the object");
  await expect(page.getByRole("heading", { level: 1, name: "Explore" })).toBeVisible();
  await page.goto("/console/objects/seller%2F7");
  await expect(page.getByText("This does not exist, or is no longer there")).toBeVisible();
});

test("what an object says moves an answer is shown and marked", async ({ page, person }) => {
  await send(person.api, "post", "/v1/objects/buyer/events", { wait: true, events: [{ type: "message", content: "Where do I pay?" }] });
  await page.route("**/v1/objects/buyer/explain", (route) =>
    route.fulfill({
      json: { answer: { signal: "is_scammer", type: "noul", noul: 0.4 }, parts: [{ seq: 1, kind: "message", excerpt: "Where do I pay?", moved: -0.12 }], method: "unread", cost_micros: 40 },
    }),
  );
  await open(page, "/console/objects/buyer", "buyer");
  await press(page, "button", "What moved is_scammer");
  await expect(page.getByRole("region", { name: "What moved is_scammer" }).getByText("−0.12")).toBeVisible();
  await expect(page.getByRole("list", { name: "Timeline" }).getByText("moved −0.12")).toBeVisible();
});

test("hostile names and texts stay harmless and readable", async ({ page, person }) => {
  const id = `x\u202e<img src=x onerror=alert(1)>${"y".repeat(180)}`;
  const content = `<script>alert(1)</script>\u202eevil\u2066 ${"long ".repeat(4000)}`;
  await send(person.api, "post", `/v1/objects/${encodeURIComponent(id)}/events`, {
    wait: true,
    events: [
      { type: "event", name: "<b>signup</b>", metadata: { name: "\u202eniart <i>", "<u>": { deep: ["\u200b"] } } },
      { type: "message", content },
    ],
  });
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  await page.goto(`/console/objects/${encodeURIComponent(id)}`);
  const heading = page.getByRole("heading", { level: 1 });
  await expect(heading).toContainText("U+202E");
  await expect(page.getByText("<script>alert(1)</script>")).toBeVisible();
  await expect(page.locator("main img, main script, main b, main i")).toHaveCount(0);
  const all = page.getByRole("button", { name: /^Show all [\d,]+ characters$/ });
  await all.press("Enter");
  await expect(page.getByRole("button", { name: "Show less" })).toBeVisible();
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), `overflow at ${width}`).toBeLessThanOrEqual(0);
  }
  await expectAccessible(page);
  expect(dialogs).toEqual([]);
});
