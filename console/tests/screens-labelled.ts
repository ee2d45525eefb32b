// Pictures of the screens that need labels, reviews and many objects.
import { shoot, take } from "./camera";
import { fillLabelled, send } from "./labelled";
import { expect, test } from "./stage";

test("Object, Queue, Quality and Billing with labels and reviews", async ({ page, person }) => {
  await fillLabelled(person.api);
  for (const content of ["kept promises, completed deals", "several reports, pressure", "false claims about money"]) {
    await send(person.api, "post", "/v1/objects/seller-0/events", { wait: true, events: [{ type: "message", content }] });
  }
  await take(page, "object-labelled", "/console/objects/seller-0");
  await page.getByRole("button", { name: "What moved is_scammer" }).click();
  await expect(page.getByRole("list", { name: "Parts that moved the answer" })).toBeVisible();
  await shoot(page, "object-moved");
  await take(page, "queue-work", "/console/queue?queue=scams");
  await take(page, "queue-list", "/console/queue?queue=scams&view=list");
  await take(page, "quality-yes-no", "/console/quality?signal=is_scammer");
  await take(page, "quality-score", "/console/quality?signal=trust_score");
  await take(page, "billing-used", "/console/billing");
});

test("What moved an answer in a workbench, and a question before leaving", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 3, labelled: 0 });
  await page.goto("/console/signals/is_scammer");
  await page.getByRole("button", { name: "Take an object’s events…" }).click();
  await page.getByRole("button", { name: "Take the events of Seller 0" }).click();
  await page.getByRole("button", { name: "What moved it" }).click();
  await expect(page.getByRole("list", { name: "Parts that moved the answer" })).toBeVisible();
  await shoot(page, "signal-moved");
  await page.getByLabel("Question").fill("Does this user cheat?");
  await page.evaluate(() => document.querySelector<HTMLElement>("nav a[href='/console/rules']")?.click());
  await expect(page.getByRole("dialog", { name: "Leave without saving?" })).toBeVisible();
  await shoot(page, "unsaved");
});
