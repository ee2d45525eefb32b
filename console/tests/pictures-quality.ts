// The picture of a signal's quality, with a hundred labelled objects.
import { portray, signIn, visit } from "./docs-camera";
import { fillLabelled } from "./labelled";
import { expect, test } from "./stage";

test("quality of a signal", async ({ page, register }) => {
  const person = await register("Harbour Market", "kim@example.com");
  await signIn(page, person);
  await fillLabelled(person.api);
  await visit(page, "/console/quality?signal=is_scammer");
  await expect(page.getByRole("img", { name: /^Precision and recall/ })).toBeVisible();
  await portray(page, "quality", 850);
});
