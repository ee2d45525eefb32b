// Whoever registered an address may not have been its owner. The first proof of an address ends what was set up before, unless the
// owner says that it was them.
import { Checkbox } from "../../parts/Field";

export function KeepQuestion() {
  return (
    <Checkbox name="keep" value="true" hint="If you are not sure, leave it off: keys, sessions, linked providers and two-factor that were set up for this address are then removed, and its webhooks and rules turned off.">
      I set this account up myself; keep everything in it
    </Checkbox>
  );
}
