// Somebody who has no account is asked whether they want the mails of a rule, agrees, and wants them no more: by the links in the mails.
import { confirmAddress } from "./docs-camera";
import { send } from "./labelled";
import type { Service } from "./service";
import { expect, expectAccessibleInBothThemes, open, press, test, WORDS, type Person } from "./stage";

test.use({ settings: { ...WORDS, AUSPEX_CONFIRM_RECIPIENTS: "true" } });

const STRANGER = "trust-team@example.org";

async function linkIn(service: Service, path: string): Promise<string> {
  const link = () => service.mails(STRANGER).flatMap((mail) => [...mail.matchAll(/http\S+?\?token=[\w-]+/g)].map(String)).findLast((url) => url.includes(`${path}?`)) ?? "";
  await expect.poll(link).not.toBe("");
  return link();
}

/** Has the rule fire, and says what came of it. */
async function fire(person: Person, object: string): Promise<unknown> {
  await send(person.api, "post", `/v1/objects/${object}/events`, { wait: true, events: [{ type: "message", content: "untraceable payment" }] });
  const { firings } = (await send(person.api, "get", `/v1/rule_firings?object_id=${object}`)) as { firings: { status: string }[] };
  return firings.map(({ status }) => status);
}

test("a recipient agrees to the mails of a rule by the link in the question, and withdraws by the link in an alert", async ({ page, register, service }) => {
  const person = await register("Harbour Market");
  await confirmAddress(service, person);
  await send(person.api, "post", "/v1/rules", { name: "Likely scam", when: "is_scammer > 0", action_type: "email", action_config: { to: STRANGER } });
  expect(await fire(person, "seller-1")).toEqual(["unconfirmed"]);

  const question = await linkIn(service, "/console/confirm");
  await open(page, question, "Do you want these alerts?");
  await expectAccessibleInBothThemes(page);
  expect(await fire(person, "seller-2"), "looking at it changes nothing").toEqual(["unconfirmed"]);
  await press(page, "button", "Yes, send me these alerts");
  await expect(page.getByRole("alert")).toContainText("You will get the alerts.");
  expect(await fire(person, "seller-3")).toEqual(["dispatched"]);
  await open(page, question, "Do you want these alerts?");
  await press(page, "button", "Yes, send me these alerts");
  await expect(page.getByRole("alert"), "a link works once").toContainText("not valid");

  const withdrawal = await linkIn(service, "/console/withdraw");
  await open(page, withdrawal, "Do you want no more mails?");
  expect(await fire(person, "seller-4"), "looking at it changes nothing").toEqual(["dispatched"]);
  await expectAccessibleInBothThemes(page);
  await press(page, "button", "Send me no more mails");
  await expect(page.getByRole("alert")).toContainText("You will get no more of these mails.");
  expect(await fire(person, "seller-5")).toEqual(["unconfirmed"]);

  // Who opens the address of the mail's header finds a page without a script; again changes nothing.
  await open(page, `/auth/console/recipients/withdraw${new URL(withdrawal).search}`, "Do you want no more mails?");
  await press(page, "button", "Send me no more mails");
  await expect(page.getByText("You will get no more of these mails.")).toBeVisible();
  expect(await fire(person, "seller-6")).toEqual(["unconfirmed"]);

  await open(page, question, "Do you want these alerts?");
  await press(page, "button", "Yes, send me these alerts");
  await expect(page.getByRole("alert"), "they may change their mind").toContainText("You will get the alerts.");
  expect(await fire(person, "seller-7")).toEqual(["dispatched"]);
});
