import { fillLabelled, send } from "./labelled";
import { expect, expectAccessible, expectAccessibleInBothThemes, open, press, test, type } from "./stage";

test("quality is measured, a threshold chosen by cost, and a calibration fitted, switched on and off", async ({ page, person }) => {
  await fillLabelled(person.api);
  await open(page, "/console/quality", "Quality");
  const figures = page.getByRole("list", { name: "Figures" });
  await expect(figures.getByText("36 of them yes")).toBeVisible();
  await expect(page.getByText("labels of flagged objects alone say nothing about what was missed")).toBeVisible();
  await expect(page.getByRole("img", { name: /^Precision and recall of is_scammer/ })).toBeVisible();
  await expect(page.getByRole("img", { name: /^How often answers to is_scammer come true/ })).toBeVisible();
  await expectAccessibleInBothThemes(page);

  const best = page.getByRole("status").filter({ hasText: "is_scammer >=" });
  const even = await best.textContent();
  await type(page, "Cost of a false alarm", "50");
  await expect(best).not.toHaveText(even ?? "");
  await expect(page).toHaveURL(/false_yes=50/);

  await page.getByRole("region", { name: "Thresholds" }).getByRole("button", { name: "Show as table" }).press("Enter");
  await expect(page.getByRole("columnheader", { name: "Precision" })).toBeVisible();

  await press(page, "button", "Fit a calibration");
  await expect(page.getByText("Fitted to 90 labels by Platt scaling, measured by cross-validation")).toBeVisible();
  await press(page, "button", "Switch it on…");
  await expect(page.getByRole("dialog").getByText("1 live rule compares with it.")).toBeVisible();
  await press(page, "button", /^Switch it on$/);
  await expect(page.getByText("The calibration is on: version 2 of is_scammer, read by 1 live rule.")).toBeVisible();
  await send(person.api, "post", "/v1/objects/seller-0/events", { wait: true, events: [{ type: "message", content: "untraceable payment" }] });
  await press(page, "button", "Switch it off…");
  await press(page, "button", /^Switch it off$/);
  await expect(page.getByText("The calibration is off: version 3 of is_scammer, read by 1 live rule.")).toBeVisible();

  // The answer of version 2 stands, and says what it was before calibration.
  await open(page, "/console/objects/seller-0", "Seller 0");
  await expect(page.getByText(/^Before calibration: \d+ %$/)).toBeVisible();
});

test("a score has a confusion matrix, and too few labels are said to be too few", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 12, labelled: 12 });
  await open(page, "/console/quality?signal=trust_score", "Quality");
  await expect(page.getByRole("region", { name: "Confusion matrix" }).getByRole("rowheader", { name: "0 High risk" })).toBeVisible();
  await expectAccessibleInBothThemes(page);
  await send(person.api, "put", "/v1/signals/off_platform", { type: "noul", instructions: "Does the user try to move the deal off the platform?" });
  await open(page, "/console/quality?signal=off_platform", "Quality");
  await expect(page.getByText("10 more labels needed")).toBeVisible();
  await expect(page.getByRole("button", { name: "Fit a calibration" })).toBeDisabled();
  await expect(page.getByText("It needs 50 labels of the present wording, at least 10 of them yes and 10 no; there are 0.")).toBeVisible();
  await expectAccessible(page);
});
