// The pictures of the main screens in README.md and docs, with what the embedded model says: `npm run pictures`.
import { confirmAddress, portray, signIn, visit } from "./docs-camera";
import { send } from "./labelled";
import { fillAccount } from "./sample";
import { fillConfiguration } from "./sample-configuration";
import { expect, MODEL, test } from "./stage";

test.use({ settings: MODEL });

test("with what the embedded model says", async ({ page, register, service }) => {
  const person = await register("Harbour Market", "sam@example.com");
  await confirmAddress(service, person);
  await signIn(page, person);
  const { ruleId } = await fillConfiguration(person.api, service.origin);
  const objectId = await fillAccount(person.api);
  const object = `/v1/objects/${encodeURIComponent(objectId)}`;
  await send(person.api, "post", `${object}/events`, {
    wait: true,
    events: [
      { type: "event", name: "identity_verified" },
      { type: "message", content: "Where are you? Others are waiting, decide now." },
      { type: "event", name: "reported", metadata: { by: "buyer/3", reason: "asked to pay outside of the site" } },
    ],
  });
  await send(person.api, "put", `${object}/labels/is_scammer`, { value: true });
  const reviews = [];
  for (const id of [objectId, "seller/31", "listing/204", "seller/12"]) {
    reviews.push(await send(person.api, "post", "/v1/reviews", { object_id: id, queue: "sellers", signals: ["is_scammer", "trust_score"] }));
  }

  await visit(page, "/console/overview");
  await portray(page, "overview");
  await visit(page, `/console/objects/${encodeURIComponent(objectId)}`);
  await page.getByRole("button", { name: "What moved is_scammer" }).click();
  await expect(page.getByRole("list", { name: "Parts that moved the answer" })).toBeVisible();
  await portray(page, "object", 1580);
  await visit(page, `/console/queue?queue=sellers&review=${reviews[0]?.id as string}`);
  await expect(page.getByText("renewed while you are here")).toBeVisible();
  await portray(page, "queue");
  await visit(page, "/console/signals/off_platform");
  await page.getByLabel("Question").fill("Does the user try to be paid or reached outside of the platform?");
  await page.getByLabel("Add events").fill("Pay me by gift card and I ship today\nYou can also try it in the shop first");
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.getByText(/^Over 2 events/)).toBeVisible();
  await portray(page, "signal");
  page.on("dialog", (dialog) => void dialog.accept());
  await visit(page, `/console/rules/${ruleId}`);
  await page.getByRole("button", { name: "Replay" }).click();
  await expect(page.getByText("On whom")).toBeVisible();
  await portray(page, "rule");
  await visit(page, "/console/explore?q=is_scammer > 0.1&sort=flagged");
  await portray(page, "explore", 620);
});
