// Pictures of every screen in both themes, wide and narrow, with an account that has something to show: `npm run screens`.
import { SCREENS } from "../src/screens/registry";
import { take } from "./camera";
import { addressIn, MODEL, test } from "./stage";

test.use({ settings: MODEL });

test("pages before sign-in", async ({ page }) => {
  for (const name of ["sign-in", "register", "forgot", "reset?token=x", "verify?token=x", "confirm?token=x", "withdraw?token=x", "invitation?token=x"]) {
    await take(page, name.replace(/\?.*/, ""), `/console/${name}`);
  }
});

for (const screen of SCREENS) {
  test(screen.name, async ({ page, context, sample }) => {
    await context.addCookies(sample.cookies);
    await take(page, screen.id, addressIn(screen.path, sample));
  });
}
