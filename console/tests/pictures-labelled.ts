// Pictures of the screens that need labels, reviews and many objects.
import { take } from "./camera";
import { fillLabelled, send, WORDS } from "./labelled";
import { test } from "./stage";

test.use({ settings: WORDS });

test("Object, Queue, Quality and Billing with labels and reviews", async ({ page, person }) => {
  await fillLabelled(person.api);
  for (const content of ["kept promises, completed deals", "several reports, pressure", "false claims about money"]) {
    await send(person.api, "post", "/v1/objects/seller-0/events", { wait: true, events: [{ type: "message", content }] });
  }
  await take(page, "object-labelled", "/console/objects/seller-0");
  await take(page, "queue-work", "/console/queue?queue=scams");
  await take(page, "queue-list", "/console/queue?queue=scams&view=list");
  await take(page, "quality-yes-no", "/console/quality?signal=is_scammer");
  await take(page, "quality-score", "/console/quality?signal=trust_score");
  await take(page, "billing-used", "/console/billing");
});
