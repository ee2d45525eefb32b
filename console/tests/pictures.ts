// Pictures of every screen in both themes, wide and narrow, with an account that has something to show: `make pictures`.
import { SCREENS } from "../src/screens/registry";
import { take } from "./camera";
import { test } from "./stage";

test("pages before sign-in", async ({ page }) => {
  for (const name of ["sign-in", "register", "forgot", "reset?token=x", "verify?token=x", "confirm?token=x", "withdraw?token=x", "invitation?token=x"]) {
    await take(page, name.replace(/\?.*/, ""), `/console/${name}`);
  }
});

for (const screen of SCREENS) {
  test(screen.name, async ({ page, context, sample }) => {
    await context.addCookies(sample.cookies);
    await take(page, screen.id, screen.path.replace("$objectId", encodeURIComponent(sample.objectId)));
  });
}
