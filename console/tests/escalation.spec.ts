import { send } from "./labelled";
import { expect, expectAccessibleInBothThemes, open, press, test, type, WORDS } from "./stage";

// The word counter behind the word counter: what matters here is which answers go to the second one.
test.use({ settings: { ...WORDS, AUSPEX_ESCALATE_ANALYZER: "words" } });

test("a band is set as people write numbers, answers within it are escalated, and nothing is any more", async ({ page, person }) => {
  const escalation = () => send(person.api, "get", "/v1/signals/is_scammer/escalation");
  const sell = (id: string) => send(person.api, "post", `/v1/objects/${id}/events`, { wait: true, signals: ["is_scammer"], events: [{ type: "message", content: "untraceable payment" }] });
  await open(page, "/console/quality?signal=is_scammer", "Quality");
  const section = page.getByRole("region", { name: "Escalation" });
  await expect(section.getByText("No answer is escalated. The second model is ")).toBeVisible();
  await expectAccessibleInBothThemes(page);

  let sent = 0;
  page.on("request", (request) => (sent += request.method() === "PUT" ? 1 : 0));
  for (const [from, to, problem] of [
    ["many", "0,9", "The lower end is a number from 0 to 1."],
    ["0,1", "9", "The upper end is a number from 0 to 1."],
    ["-0,1", "0,9", "The lower end is a number from 0 to 1."],
  ] as const) {
    await type(page, "Unsure from (0 to 1)", from);
    await type(page, "Unsure to (0 to 1)", to);
    await page.keyboard.press("Enter");
    await expect(section.getByRole("alert")).toHaveText(problem);
  }
  expect(sent, "what is no number is not sent").toBe(0);
  await type(page, "Unsure from (0 to 1)", "0,05");
  await type(page, "Unsure to (0 to 1)", "0.95");
  await page.keyboard.press("Enter");
  await expect(section.getByText(/^Answers from 5 % to 95 % are escalated\. /)).toBeVisible();
  expect(await escalation()).toMatchObject({ band: [0.05, 0.95], escalated_today: 0 });

  const { answers } = (await sell("seller-1")) as { answers: object[] };
  expect(answers).toMatchObject([{ escalated: true }]);
  await page.reload();
  await expect(section.getByText(/^1 answer today \(UTC\), for \$/)).toBeVisible();

  await type(page, "Wrong answers allowed among the others (0 to 1)", "a few");
  await page.keyboard.press("Enter");
  await expect(section.getByRole("alert")).toHaveText("The share of wrong answers is a number from 0 to 1.");
  await type(page, "Wrong answers allowed among the others (0 to 1)", "0,05");
  await page.keyboard.press("Enter");
  await expect(section.getByRole("alert")).toContainText("50 labels");

  await press(page, "button", "Escalate nothing");
  await expect(section.getByText("No answer is escalated.")).toBeVisible();
  expect(await escalation()).not.toHaveProperty("band");
  expect(((await sell("seller-2")) as { answers: object[] }).answers[0]).not.toHaveProperty("escalated", true);
});

test("of a score, the confidence is set below which it is unsure", async ({ page, person }) => {
  await open(page, "/console/quality?signal=trust_score", "Quality");
  const section = page.getByRole("region", { name: "Escalation" });
  await type(page, "Unsure below a confidence of (0 to 1)", "1,5");
  await page.keyboard.press("Enter");
  await expect(section.getByRole("alert")).toHaveText("The confidence is a number from 0 to 1.");
  await type(page, "Unsure below a confidence of (0 to 1)", "0,4");
  await page.keyboard.press("Enter");
  await expect(section.getByText(/^Answers with a confidence below 40 % are escalated\. /)).toBeVisible();
  expect(await send(person.api, "get", "/v1/signals/trust_score/escalation")).toMatchObject({ below: 0.4 });
});
