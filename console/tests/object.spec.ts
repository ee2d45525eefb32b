import type { Page, Request } from "@playwright/test";

import { movedText, partsOfEvents } from "../src/parts/moved";
import { send } from "./labelled";
import { expect, expectAccessibleInBothThemes, open, press, test } from "./stage";

test("an object is read, labelled, put into a queue, analyzed again and deleted", async ({ page, person }) => {
  await send(person.api, "post", "/v1/rules", { name: "Everything", when: "is_scammer > 0.01", action_type: "email", action_config: { to: "trust@example.com" } });
  for (const content of ["Is it still there?", "Pay by gift card"]) {
    await send(person.api, "post", "/v1/objects/seller%2F7/events", { wait: true, object_type: "seller", events: [{ type: "event", name: "signup", metadata: { name: "Kim" } }, { type: "message", content }] });
  }
  await open(page, "/console/objects/seller%2F7", "Kim");
  const timeline = page.getByRole("list", { name: "Timeline" });
  await expect(timeline.getByText("Pay by gift card")).toBeVisible();
  await expect(timeline.getByText("Rule Everything fired")).toBeVisible();
  await page.getByRole("heading", { name: "Answers over time" }).scrollIntoViewIfNeeded();
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

test("what moved an answer is shown largest first and marked in the timeline", async ({ page, person }) => {
  const messages = ["deals honestly, kept promises", "untraceable payment, pressure, false claims", "hello", "hello"];
  const events = messages.map((content) => ({ type: "message", content }));
  await send(person.api, "post", "/v1/objects/buyer/events", { wait: true, events: [{ type: "event", name: "signup", metadata: { name: "Kim" } }, ...events] });
  const explained = (await send(person.api, "post", "/v1/objects/buyer/explain", { signal: "is_scammer" })) as { parts: { seq: number; excerpt: string; moved: number }[]; cost_micros: number };
  expect(explained.parts.some(({ moved }) => moved > 0.01) && explained.parts.some(({ moved }) => moved < -0.01), JSON.stringify(explained.parts)).toBe(true);
  await open(page, "/console/objects/buyer", "Kim");
  let asked = 0;
  page.on("request", (request) => (asked += request.url().endsWith("/explain") ? 1 : 0));
  await press(page, "button", "What moved is_scammer");

  const region = page.getByRole("region", { name: "What moved is_scammer" });
  const parts = region.getByRole("list", { name: "Parts that moved the answer" }).getByRole("listitem");
  await expect(parts).toHaveCount(explained.parts.length);
  const amount = (moved: number) => (Math.abs(moved) < 0.0005 ? "did not move it: ±0 points" : `${moved < 0 ? "lowered it: −" : "raised it: +"}${(Math.abs(moved) * 100).toFixed(1)} points`);
  for (const [index, part] of explained.parts.entries()) {
    await expect(parts.nth(index)).toContainText(part.excerpt);
    await expect(parts.nth(index)).toContainText(amount(part.moved));
  }
  await expect(region.getByText("The question was asked again without each of at most 12 parts")).toBeVisible();
  await expect(region.getByText(/It cost \$0\.0\d+, asked just now/)).toBeVisible();
  await expect(region).not.toContainText(/because/i);
  const timeline = page.getByRole("list", { name: "Timeline" });
  for (const { excerpt, moved } of explained.parts.filter((part) => part.excerpt !== "hello")) {
    await expect(timeline.getByRole("listitem").filter({ hasText: excerpt.split(" {")[0] ?? "" }).filter({ hasText: /^Event|^Message/ })).toContainText(amount(moved));
  }
  await expect(timeline.getByText(/(raised|lowered|move) it:/), "each of two that say the same").toHaveCount(explained.parts.length);
  await expectAccessibleInBothThemes(page);

  await page.getByRole("button", { name: "Show part 1 in the timeline" }).press("Enter");
  await expect(timeline.locator(":focus")).toContainText(amount(explained.parts[0]?.moved ?? 0));
  await page.getByRole("button", { name: "Close the explanation" }).press("Enter");
  await expect(timeline.getByText(/(raised|lowered|move) it:/)).toHaveCount(0);
  await press(page, "button", "What moved is_scammer");
  await expect(parts).toHaveCount(explained.parts.length);
  expect(asked, "it is charged, and so asked once").toBe(1);
  await region.getByRole("button", { name: "Ask again" }).press("Enter");
  await expect.poll(() => asked).toBe(2);
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), "overflow at 390 px").toBeLessThanOrEqual(0);
});

test("parts are found again among events that say the same, or more than an excerpt holds", () => {
  const long = "a word, ".repeat(200);
  const events = [
    { type: "event" as const, name: "login", metadata: { from: "A" } },
    { type: "message" as const, content: "hello" },
    { type: "event" as const, name: "login", metadata: { from: "B" } },
    { type: "message" as const, content: "hello" },
    { type: "message" as const, content: `${long}\nthe end` },
    { type: "event" as const, name: "hello" },
  ];
  const part = (seq: number, kind: "event" | "message", excerpt: string) => ({ seq, kind, excerpt, moved: seq / 100 });
  const parts = [part(13, "event", 'login {"from":"B"}'), part(15, "message", long.slice(0, 500)), part(12, "message", "hello"), part(14, "message", "hello"), { kind: "summary" as const, excerpt: "hello", moved: 0.5 }];
  expect(partsOfEvents(events, parts).map((found) => found?.seq)).toEqual([undefined, 12, 13, 14, 15, undefined]);
  expect(partsOfEvents(events.slice(2), parts).map((found) => found?.seq), "only the newer of two is on the page").toEqual([13, 14, 15, undefined]);
  expect([movedText(0.312874, "noul"), movedText(-0.0004, "choice"), movedText(-0.2, "score")]).toEqual(["+31.3 points", "±0 points", "−0.20 levels"]);
});

test("an explanation that fails says why and can be asked for again", async ({ page, person }) => {
  await send(person.api, "post", "/v1/objects/buyer/events", { wait: true, events: [{ type: "message", content: "Where do I pay?" }] });
  let fails = true;
  await page.route("**/v1/objects/buyer/explain", async (route) => {
    if (!fails) return route.continue();
    await route.fulfill({ status: 502, headers: { "X-Request-Id": "r-9" }, json: { error: { code: "analyzer_failed", message: "the analyzer failed" } } });
  });
  await open(page, "/console/objects/buyer", "buyer");
  await press(page, "button", "What moved is_scammer");
  const region = page.getByRole("region", { name: "What moved is_scammer" });
  await expect(region.getByText("The analyzer failed.")).toBeVisible();
  fails = false;
  await region.getByRole("button", { name: "Try again" }).press("Enter");
  await expect(region.getByRole("list", { name: "Parts that moved the answer" }).getByRole("listitem")).toHaveCount(1);
});

const pathOf = (request: Request): string => new URL(request.url()).pathname;

/** What the page asks of the API until `last` has come, if that is named, and nothing more comes; without who is signed in. */
async function requestsOf(page: Page, path: string, last?: string): Promise<string[]> {
  const asked: string[] = [];
  const note = (request: Request) => {
    const pathname = pathOf(request);
    const isRead = request.method() === "GET" && pathname.startsWith("/v1/");
    if (isRead && !request.url().endsWith("/v1/me")) asked.push(pathname);
  };
  page.on("request", note);
  const comes = last === undefined ? undefined : page.waitForRequest((request) => pathOf(request) === last);
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await comes;
  await page.waitForLoadState("networkidle");
  page.off("request", note);
  return asked.sort();
}

// The figures of console/README.md, "What a screen asks for".
test("Object is shown with two requests, and what is out of sight is asked for when it comes into sight", async ({ page, person }) => {
  await send(person.api, "post", "/v1/objects/a/events", { wait: true, events: [{ type: "message", content: "Is it still there?" }] });
  await page.setViewportSize({ width: 1440, height: 500 });
  expect(await requestsOf(page, "/console/objects/a")).toEqual(["/v1/objects/a", "/v1/signals"]);
  const past = page.waitForRequest((request) => request.url().includes("/v1/objects/a/answers"));
  await page.getByRole("heading", { name: "Answers over time" }).scrollIntoViewIfNeeded();
  await past;

  await send(person.api, "post", "/v1/rules", { name: "Everything", when: "is_scammer > 0.01", action_type: "review", action_config: { queue: "all" } });
  await send(person.api, "post", "/v1/objects/a/events", { wait: true, events: [{ type: "message", content: "Pay by gift card" }] });
  expect(await requestsOf(page, "/console/objects/a", "/v1/rules"), "the rules, for the name of the one that fired").toEqual(["/v1/objects/a", "/v1/rules", "/v1/signals"]);
});

test("Signals asks for the figures of the signals in sight", async ({ page, person }) => {
  const wording = { type: "noul", instructions: "Does the user try to move the deal off the platform?" };
  for (let number = 0; number < 20; number++) await send(person.api, "put", `/v1/signals/more_${number}`, wording);
  const { signals } = (await (await person.api.get("/v1/signals")).json()) as { signals: { key: string }[] };
  const quality = (key: string | undefined) => `/v1/signals/${key}/quality`;
  const asked = await requestsOf(page, "/console/signals", quality(signals[0]?.key));
  expect(asked.filter((path) => !path.startsWith("/v1/signals/"))).toEqual(["/v1/rules", "/v1/signals", "/v1/usage"]);
  const figures = asked.filter((path) => path.startsWith("/v1/signals/"));
  expect(figures.length, "not of those below the fold").toBeLessThan(2 * signals.length);
  const last = quality(signals.at(-1)?.key);
  expect(asked).not.toContain(last);
  const comes = page.waitForRequest((request) => pathOf(request) === last);
  await page.getByRole("grid", { name: "Signals" }).getByRole("row").last().scrollIntoViewIfNeeded();
  await comes;
});

test("lists and overviews are shown with one or two requests", async ({ page, person }) => {
  await send(person.api, "post", "/v1/webhooks", { url: "http://127.0.0.1:9/hooks" });
  await send(person.api, "post", "/v1/objects/a/events", { wait: true, events: [{ type: "message", content: "Is it still there?" }] });
  expect(await requestsOf(page, "/console/webhooks")).toEqual(["/v1/webhooks"]);
  expect(await requestsOf(page, "/console/overview")).toEqual(["/v1/overview", "/v1/usage"]);
  expect(await requestsOf(page, "/console/rules")).toEqual(["/v1/rule_firings", "/v1/rules"]);
  expect(await requestsOf(page, "/console/account"), "with all that it has sections for").toEqual(["/v1/me"]);
  expect(await requestsOf(page, "/console/quality?signal=is_scammer")).toEqual(["/v1/signals", "/v1/signals/is_scammer/quality"]);
  await send(person.api, "post", "/v1/reviews", { object_id: "a", queue: "scams", signals: ["is_scammer"] });
  expect(await requestsOf(page, "/console/queue?queue=scams", "/v1/objects/a")).toEqual(["/v1/objects/a", "/v1/reviews/queues"]);
});
