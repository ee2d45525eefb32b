// Names and contents that strangers wrote: markup, characters that reorder or hide text, and as long as the service takes them.
import type { Page } from "@playwright/test";

import { send } from "./labelled";
import { expect, expectAccessible, open, press, test } from "./stage";

const OVERRIDE = "\u202e";
const BIDI = /[\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069]/;
/** The editor of conditions has an image of its own beside a placeholder. */
const MARKUP = "main img:not(.cm-widgetBuffer), main script, main b, main i";

const filled = (start: string, length: number, filler: string): string => start + filler.repeat(length - [...start].length);

/** 255 characters, the most that an id can have. */
const ID = filled(`x${OVERRIDE}<img src=x onerror=alert(1)>`, 255, "y");
/** 32 KiB, the most that a content can have. */
const CONTENT = (() => {
  const start = `<script>alert(1)</script>${OVERRIDE}evil\u2066 `;
  return start + "long ".repeat(7000).slice(0, 32 * 1024 - Buffer.byteLength(start));
})();
const NAME = filled(`${OVERRIDE}niart <i>`, 255, "n");
const TYPE = `seller${OVERRIDE}`;

/** Two hostile objects: one is known by its name, the other by its id. */
async function fillHostile(api: Parameters<typeof send>[0]): Promise<void> {
  expect(Buffer.byteLength(CONTENT)).toBe(32 * 1024);
  await send(api, "post", "/v1/rules", { name: "Everything", when: "is_scammer >= 0", action_type: "review", action_config: { queue: "hostile" } });
  for (const [id, name] of [[ID, NAME], [`z${ID.slice(1)}`, undefined]] as const) {
    await send(api, "post", `/v1/objects/${encodeURIComponent(id)}/events`, {
      wait: true,
      object_type: TYPE,
      events: [
        { type: "event", name: "<b>signup</b>", metadata: { name, "<u>": { deep: ["\u200b"] } } },
        { type: "message", content: CONTENT },
      ],
    });
  }
}

/** Nothing on the page is markup of theirs, nothing reorders or hides text, and nothing is wider than the window. */
async function expectHarmless(page: Page, where: string): Promise<void> {
  await expect(page.getByText("U+202E").first(), where).toBeVisible();
  await expect(page.locator(MARKUP), where).toHaveCount(0);
  const raw = await page.evaluate((source) => {
    const hidden = new RegExp(source);
    const read = ["aria-label", "aria-valuetext", "alt", "placeholder", "title"];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found: string[] = [];
    while (texts.nextNode()) if (hidden.test(texts.currentNode.textContent ?? "")) found.push(`in ${texts.currentNode.parentElement?.outerHTML.slice(0, 200)}`);
    for (const element of document.querySelectorAll("body *")) {
      for (const name of read) if (hidden.test(element.getAttribute(name) ?? "")) found.push(`${name} of ${element.outerHTML.slice(0, 200)}`);
    }
    if (hidden.test(document.title)) found.push("the title");
    return found;
  }, BIDI.source);
  expect(raw, where).toEqual([]);
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), `${where}: overflow at ${width}`).toBeLessThanOrEqual(0);
  }
}

/** What a script of theirs would have opened. */
function dialogsOf(page: Page): string[] {
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  return dialogs;
}

test("hostile names and texts stay harmless and readable", async ({ page, person }) => {
  await fillHostile(person.api);
  const dialogs = dialogsOf(page);
  await page.goto(`/console/objects/${encodeURIComponent(ID)}`);
  await expect(page.getByRole("heading", { level: 1 })).toContainText("U+202E");
  await expect(page.getByText("<script>alert(1)</script>")).toBeVisible();
  await page.getByRole("button", { name: /^Show all [\d,]+ characters$/ }).press("Enter");
  await expect(page.getByRole("button", { name: "Show less" })).toBeVisible();
  await expectHarmless(page, "Object");
  await expectAccessible(page);
  expect(dialogs).toEqual([]);
});

test("hostile names are harmless in every list that shows them", async ({ page, person, service }) => {
  await send(person.api, "post", "/v1/webhooks", { url: `${service.origin}/hooks/hostile` });
  await fillHostile(person.api);
  const dialogs = dialogsOf(page);
  const { rules } = (await (await person.api.get("/v1/rules")).json()) as { rules: { id: string }[] };
  const lists = [
    ["/console/explore", "Explore", "Objects"],
    ["/console/overview", "Overview", "Objects with the highest answers"],
    ["/console/queue?queue=hostile&view=list", "Queue hostile", "Reviews"],
    [`/console/rules/${rules[0]?.id}?tab=firings`, "Everything", "Firings"],
  ] as const;
  for (const [path, heading, list] of lists) {
    await open(page, path, heading);
    await expect(page.getByRole("grid", { name: list }).getByRole("row")).toHaveCount(3);
    await expectHarmless(page, heading);
    await expectAccessible(page);
  }

  await open(page, "/console/queue?queue=hostile", "Queue hostile");
  await expect(page.getByRole("region", { name: "The object" }).getByText("<script>alert(1)</script>")).toBeVisible();
  await expectHarmless(page, "Queue");
  await expectAccessible(page);

  await open(page, "/console/rules/new-rule?when=is_scammer%20%3E%3D%200", "New rule");
  await press(page, "button", "Replay");
  await expect(page.getByRole("grid", { name: "Objects it would have fired for" })).toBeVisible();
  await expectHarmless(page, "Replay");

  await open(page, "/console/first-steps", "First steps");
  await expect(page.getByText(/has answers to/)).toBeVisible();
  await expectHarmless(page, "First steps");
  expect(dialogs).toEqual([]);
});

test("hostile names and contents are harmless in the playground and in deliveries", async ({ page, person, service }) => {
  await send(person.api, "post", "/v1/webhooks", { url: `${service.origin}/hooks/hostile` });
  await send(person.api, "post", `/v1/objects/${encodeURIComponent(ID)}/events`, {
    object_type: TYPE,
    events: [{ type: "event", name: "signup", metadata: { name: NAME } }, { type: "message", content: CONTENT }],
  });
  const deliveries = async () => ((await (await person.api.get("/v1/webhook_deliveries?status=dead")).json()) as { deliveries: unknown[] }).deliveries.length;
  await expect.poll(deliveries, { timeout: 30_000 }).toBe(1);
  const dialogs = dialogsOf(page);
  await open(page, "/console/webhooks?tab=deliveries", "Webhooks");
  await expect(page.getByRole("grid", { name: "Deliveries" }).getByRole("row")).toHaveCount(2);
  await expectHarmless(page, "Deliveries");
  await page.getByRole("button", { name: /^Details of analysis.completed/ }).press("Enter");
  await expect(page.getByRole("dialog").getByText("Payload")).toBeVisible();
  await expectHarmless(page, "Delivery");
  await expectAccessible(page);

  await open(page, "/console/signals/is_scammer", "is_scammer");
  await press(page, "button", "Take an object’s events…");
  await expect(page.getByRole("list", { name: "Objects" })).toBeVisible();
  await expectHarmless(page, "The choice of an object");
  await page.getByRole("button", { name: /^Take the events of/ }).press("Enter");
  await expect(page.getByRole("list", { name: "Events to ask about" }).getByRole("listitem")).toHaveCount(2);
  await expectHarmless(page, "Playground");
  await expectAccessible(page);
  expect(dialogs).toEqual([]);
});
