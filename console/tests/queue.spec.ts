import type { Browser, Page } from "@playwright/test";

import { invitation, join } from "./invite";
import { fillLabelled, send } from "./labelled";
import type { Service } from "./service";
import { expect, expectAccessible, expectAccessibleInBothThemes, open, press, test, type Person } from "./stage";

const QUEUE = "/console/queue?queue=scams";
const name = (page: Page) => page.getByRole("region", { name: "The object" }).getByRole("heading", { level: 2 });

async function reviewsOf(person: Person, status: string): Promise<{ id: string; object_id: string; decision?: string; claimed_by?: { name: string } }[]> {
  const answer = await person.api.get(`/v1/reviews?queue=scams&status=${status}`);
  return ((await answer.json()) as { reviews: [] }).reviews;
}

test("an analyst works through a queue by keys", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 12, labelled: 0 });
  const waiting = (await reviewsOf(person, "open")).length;
  expect(waiting).toBeGreaterThan(3);
  await open(page, "/console/queue", "Queue");
  await page.getByRole("grid", { name: "Queues" }).getByRole("row", { name: /scams/ }).press("Enter");
  await expect(page.getByText("renewed while you are here")).toBeVisible();
  const first = await name(page).textContent();

  await page.keyboard.press("1");
  const yes = page.getByRole("group", { name: "Label is_scammer" }).getByRole("button", { name: "Yes" });
  await expect(yes).toHaveAttribute("aria-pressed", "true");
  // The key of a score's level is the level.
  await page.keyboard.press("1");
  await expect(page.getByRole("group", { name: "Label trust_score" }).getByRole("button", { name: "1 Neutral" })).toHaveAttribute("aria-pressed", "true");
  await page.setViewportSize({ width: 1440, height: 480 });
  await expect(page.getByRole("button", { name: "Resolve" }), "what one presses is in view").toBeInViewport({ ratio: 1 });
  await page.setViewportSize({ width: 1440, height: 900 });
  await expectAccessibleInBothThemes(page);
  await page.keyboard.press("Enter");
  await expect(name(page)).not.toHaveText(first ?? "");
  await expect(page.getByText("1 done in this sitting")).toBeVisible();
  await expect.poll(async () => (await reviewsOf(person, "resolved")).map(({ decision }) => decision)).toEqual(["confirmed"]);

  await page.keyboard.press("u");
  await expect(name(page)).toHaveText(first ?? "");
  await expect(page.getByText("0 done in this sitting")).toBeVisible();
  expect((await reviewsOf(person, "resolved")).length).toBe(0);

  await page.keyboard.press("s");
  await expect(name(page)).not.toHaveText(first ?? "");
  const second = await name(page).textContent();
  await page.keyboard.press("j");
  await expect(name(page)).not.toHaveText(second ?? "");
  await page.keyboard.press("k");
  await expect(name(page)).toHaveText(second ?? "");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Label it first, or type a decision.")).toBeVisible();
  await page.keyboard.press("d");
  await page.keyboard.type("looks fine");
  await page.keyboard.press("Enter");
  await expect.poll(async () => (await reviewsOf(person, "resolved")).map(({ decision }) => decision)).toEqual(["looks fine"]);

  await page.keyboard.press("?");
  await expect(page.getByRole("dialog").getByText("Skip: give it back for others")).toBeVisible();
  await page.keyboard.press("Escape");
  await press(page, "link", "List");
  await expect(page.getByRole("grid", { name: "Reviews" })).toBeVisible();
  // Leaving gives back what was claimed and not resolved.
  await expect.poll(async () => (await reviewsOf(person, "claimed")).length).toBe(0);
  expect((await reviewsOf(person, "open")).length).toBe(waiting - 1);
});

test("the whole queue is done, skipped ones come again, and the next object shows within 100 ms", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 20, labelled: 0 });
  const waiting = (await reviewsOf(person, "open")).length;
  await open(page, QUEUE, "Queue scams");
  await expect(name(page)).toBeVisible();
  await page.keyboard.press("s");
  const times: number[] = [];
  for (let done = 1; done < waiting; done++) {
    const before = await name(page).textContent();
    await page.keyboard.press("2");
    await expect(page.getByRole("group", { name: "Label is_scammer" }).getByRole("button", { name: "No" })).toHaveAttribute("aria-pressed", "true");
    times.push(await timeToNext(page));
    if (done < waiting - 1) await expect(name(page)).not.toHaveText(before ?? "");
  }
  const again = page.getByRole("button", { name: "Look at 1 skipped again" });
  await expect(again).toBeVisible();
  await expect(page.getByText(/to go$|^\d+ left$/), "what is left is left for nobody here").toHaveCount(0);
  await expectAccessible(page);
  const sorted = times.toSorted((one, other) => one - other);
  expect(sorted[Math.floor(sorted.length / 2)], `key to next object, in ms: ${times.map(Math.round).join(" ")}`).toBeLessThan(100);
  await again.press("Enter");
  await expect(name(page)).toBeVisible();
});

/** Presses Enter and measures, in the page, how long until what is shown of the object has changed and was painted. */
async function timeToNext(page: Page): Promise<number> {
  await page.evaluate(() => {
    const shown = () => document.querySelector("section[aria-label='The object'] h2")?.textContent;
    const before = shown();
    (window as unknown as { next: Promise<number> }).next = new Promise((resolve) => {
      addEventListener(
        "keydown",
        (event) => {
          const look = () => {
            if (shown() === before) requestAnimationFrame(look);
            else resolve(performance.now() - event.timeStamp);
          };
          requestAnimationFrame(look);
        },
        { once: true, capture: true },
      );
    });
  });
  await page.keyboard.press("Enter");
  return page.evaluate(() => (window as unknown as { next: Promise<number> }).next);
}

test("a claim is renewed and seen by others, and an empty queue says how reviews come about", async ({ page, person }) => {
  await open(page, "/console/queue", "Queue");
  await expect(page.getByText("No queue has ever held a review")).toBeVisible();
  await expect(page.getByText("A share of all analyzed objects is drawn at random")).toBeVisible();
  await expectAccessible(page);
  await send(person.api, "post", "/v1/objects/a/events", { wait: true, events: [{ type: "message", content: "hello" }] });
  const review = (await send(person.api, "post", "/v1/reviews", { object_id: "a", queue: "scams", signals: ["is_scammer"] })) as { id: string };
  await page.clock.install();
  await open(page, QUEUE, "Queue scams");
  await expect(page.getByText("renewed while you are here")).toBeVisible();
  const renewed = page.waitForRequest((request) => request.method() === "GET" && request.url().endsWith(`/v1/reviews/${review.id}`));
  await page.clock.fastForward(61_000);
  await renewed;
  await page.clock.resume();
  const other = await page.context().newPage();
  await open(other, `${QUEUE}&view=list&status=claimed`, "Queue scams");
  await expect(other.getByRole("grid", { name: "Reviews" }).getByText(person.email)).toBeVisible();
  await expectAccessible(other);
});

/** An analyst in a browser of their own. */
async function analyst(owner: Person, email: string, service: Service, browser: Browser): Promise<Page> {
  const page = await (await browser.newContext({ baseURL: service.origin })).newPage();
  await page.clock.install();
  await join(page, await invitation(owner, service, email, "analyst"));
  return page;
}

test("two analysts share a queue: each gets another object, and sees what the other does", async ({ browser, page, person, service }) => {
  await fillLabelled(person.api, { objects: 12, labelled: 0 });
  const [one, other] = [`one-${person.email}`, `other-${person.email}`];
  const first = await analyst(person, one, service, browser);
  const second = await analyst(person, other, service, browser);
  await open(first, QUEUE, "Queue scams");
  await expect(name(first)).toBeVisible();
  await open(second, QUEUE, "Queue scams");
  await expect(name(second)).toBeVisible();
  const object = (await name(first).textContent()) ?? "";
  await expect(name(second), "not what the other has").not.toHaveText(object);

  // The claims of both are seen by whoever looks at the list.
  await open(page, `${QUEUE}&view=list&status=claimed`, "Queue scams");
  const claimed = page.getByRole("grid", { name: "Reviews" });
  await expect(claimed.getByText(one).first()).toBeVisible();
  await expect(claimed.getByText(other).first()).toBeVisible();

  await open(second, `${QUEUE}&view=list&status=resolved`, "Queue scams");
  await expect(second.getByText("Nothing was resolved yet")).toBeVisible();
  await first.keyboard.press("1");
  await first.keyboard.press("Enter");
  await expect(first.getByText("1 done in this sitting")).toBeVisible();
  await expect(name(first)).not.toHaveText(object);
  await expect.poll(async () => (await reviewsOf(person, "resolved")).length).toBe(1);
  await second.clock.fastForward(11_000);
  await expect(second.getByRole("grid", { name: "Reviews" }).getByRole("row").filter({ hasText: "confirmed" }), "the list follows by itself").toContainText(one);
  for (const desk of [first, second]) await desk.context().close();
});

test("a question that is JSON is shown as it is asked", async ({ page, person }) => {
  const instructions = { question: "Does the user pressure others?", look_at: ["tone", "deadlines"] };
  await send(person.api, "put", "/v1/signals/pressure", { type: "noul", instructions });
  await send(person.api, "post", "/v1/objects/a/events", { wait: true, events: [{ type: "message", content: "Only today!" }] });
  await send(person.api, "post", "/v1/reviews", { object_id: "a", queue: "scams", signals: ["pressure"] });
  await open(page, QUEUE, "Queue scams");
  const decide = page.getByRole("region", { name: "Your decision" });
  await expect(decide.getByText(JSON.stringify(instructions))).toBeVisible();
  await expect(page.getByText("[object Object]")).toHaveCount(0);
});
