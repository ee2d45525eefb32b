import { choose, expect, expectAccessible, open, press, test, type } from "./stage";

test("a signal is written, tried, saved, reworded, restored and deleted by keyboard", async ({ page, person }) => {
  await open(page, "/console/signals", "Signals");
  await expect(page.getByRole("rowheader", { name: /is_scammer/ })).toBeVisible();
  await press(page, "link", "New signal");
  await expect(page.getByRole("heading", { level: 1, name: "New signal" })).toBeVisible();

  // A draft is asked before anything is saved.
  await type(page, "Question", "Does the user ask for gift cards?");
  await type(page, "Add events", "Pay me by gift card and I ship today");
  await press(page, "button", "Ask");
  const answers = page.getByRole("list", { name: "Answers" });
  await expect(answers.getByText("Your draft")).toBeVisible();
  await expect(answers.getByRole("img", { name: /^Your draft: \d+ %$/ })).toBeVisible();

  // The key of another signal would reword that one.
  await type(page, "Key", "is_scammer");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Key", { exact: true })).toHaveAccessibleDescription(/There is a signal of this key already\./);
  await type(page, "Key", "gift_cards");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "gift_cards" })).toBeVisible();

  await type(page, "Question", "Does the user ask to be paid by gift cards?");
  await press(page, "button", "Save as the next version");
  await expect(page.getByText("Saved as the next version.")).toBeVisible();
  await page.getByRole("tab", { name: "Wording" }).focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  await expect(page.locator("ins")).toHaveText("to be paid by");
  await expect(page.locator("del")).toHaveText("for");
  await press(page, "button", "Restore version 1");
  await page.keyboard.press("Escape");
  await press(page, "button", "Restore version 1");
  await page.getByRole("button", { name: "Restore", exact: true }).press("Enter");
  await expect(page.getByText("Version 3", { exact: true })).toBeVisible();

  await page.getByRole("tab", { name: "Versions" }).press("Home");
  await type(page, "Question", "Not saved, and gone with the signal.");
  await press(page, "button", "Delete…");
  await type(page, "Type gift_cards to go on", "gift_cards");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Signals" })).toBeVisible();
  const { signals } = (await (await person.api.get("/v1/signals")).json()) as { signals: { key: string }[] };
  expect(signals.map((signal) => signal.key)).not.toContain("gift_cards");
});

test("a backfill says its price, runs, and ends", async ({ page, person }) => {
  const wait = await person.api.post("/v1/objects/u1/events", { data: { wait: true, signals: ["is_scammer"], events: [{ type: "message", content: "Hello" }] } });
  expect(wait.status()).toBe(200);
  await open(page, "/console/signals/trust_score?tab=backfill", "trust_score");
  await expect(page.getByText(/^about \$0\.0000\d+$/)).toBeVisible();
  await press(page, "button", "Start a backfill…");
  await expect(page.getByRole("dialog", { name: "Ask trust_score about 1 object?" })).toContainText(/Price: about \$/);
  await page.getByRole("button", { name: "Start the backfill" }).press("Enter");
  await expect(page.getByText(/^Finished: 1 of 1 object/)).toBeVisible();
  await expect(page.getByText("nothing to ask")).toBeVisible();
});

test("another wording is tried with its price first, and adopted", async ({ page, person }) => {
  const sent = await person.api.post("/v1/objects/u1/events", { data: { wait: true, signals: ["is_scammer"], events: [{ type: "message", content: "Pay me by gift card" }] } });
  expect(sent.status()).toBe(200);
  const labelled = await person.api.put("/v1/objects/u1/labels/is_scammer", { data: { value: true } });
  expect(labelled.status()).toBe(200);
  await open(page, "/console/signals/is_scammer?tab=trials", "is_scammer");
  await expect(page.getByText("No trials yet")).toBeVisible();
  await expect(page.getByRole("button", { name: "Show the price" })).toBeDisabled();
  await type(page, "Question", "Does this user cheat others?");
  await press(page, "button", "Show the price");
  await expect(page.getByText(/^1 object, about \$0\.0000\d+\.$/)).toBeVisible();
  await press(page, "button", "Start the trial");
  await expect(page.getByText(/^1 of 1 object asked, .* of the answers stay on the same side\.$/)).toBeVisible();
  await expect(page.getByText("Only 1 object of the trial is labelled. Figures need 9 more labels.")).toBeVisible();
  await expectAccessible(page);
  await press(page, "button", "Adopt this wording…");
  await page.getByRole("button", { name: "Adopt it" }).press("Enter");
  await expect(page.getByText("The wording of the trial is the signal’s next version.")).toBeVisible();
  const { signals } = (await (await person.api.get("/v1/signals")).json()) as { signals: { key: string; instructions: string }[] };
  expect(signals.find((signal) => signal.key === "is_scammer")?.instructions).toBe("Does this user cheat others?");
});

test("criteria of every type are kept as they were written", async ({ page, person }) => {
  void person;
  await open(page, "/console/signals/new-signal", "New signal");
  await type(page, "Key", "mood");
  await type(page, "Question", "What is the mood?");
  await choose(page, "radio", /^Choice/);
  await type(page, "Option 1", "calm");
  await type(page, "Option 2", "calm");
  await press(page, "button", "Save the signal");
  await expect(page.getByText("Criteria: the option calm is there twice.")).toBeVisible();
  await type(page, "Option 2", "angry");
  await type(page, "Option 2 means", "Insults or threatens.");
  await type(page, "Add events", "You will regret this");
  await press(page, "button", /^Add$/);
  await press(page, "button", "Save the signal");
  await expect(page.getByRole("heading", { level: 1, name: "mood" })).toBeVisible();
  await expect(page.getByRole("list", { name: "Events to ask about" }), "what was tried on it is still there").toContainText("You will regret this");
  await choose(page, "radio", /^Score/);
  await expect(page.getByText("saving drops all present answers")).toBeVisible();
  await type(page, "Level 0", "angry");
  await type(page, "Level 1", "calm");
  await press(page, "button", "Save as the next version");
  await expect(page.getByText("Saved as the next version.")).toBeVisible();
  const { signals } = (await (await person.api.get("/v1/signals")).json()) as { signals: { key: string; type: string; criteria: unknown }[] };
  expect(signals.find((signal) => signal.key === "mood")).toMatchObject({ type: "score", criteria: ["angry", "calm"] });
});
