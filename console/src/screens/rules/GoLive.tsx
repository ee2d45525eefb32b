// Lets a rule that was tried in shadow act, and says first how often it would have.
import { useQuery } from "@tanstack/react-query";

import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { Form } from "../../parts/Form";
import { toast } from "../../parts/Toast";
import { plural } from "../../parts/Values";
import { isRun, replay, updateRule, type Rule } from "./queries";

const DAYS = 30;
const DAY_MS = 86_400_000;

export function GoLive({ rule, isOpen, onClose }: { rule: Rule; isOpen: boolean; onClose: () => void }) {
  const cooldown = rule.cooldown_seconds ?? 0;
  const past = useQuery({
    queryKey: ["replay", "go live", rule.id, rule.when, cooldown],
    queryFn: () => replay(rule.when, cooldown, new Date(Date.now() - DAYS * DAY_MS).toISOString()),
    enabled: isOpen,
    retry: false,
    staleTime: 60_000,
  });
  return (
    <Dialog title={`Let ${rule.name} act?`} isOpen={isOpen} onClose={onClose}>
      <Form
        submit="Go live"
        beside={<Button onPress={onClose}>Cancel</Button>}
        onSubmit={async () => {
          await updateRule(rule.id, { mode: "live" });
          toast("The rule is live.");
          onClose();
        }}
      >
        <p>From now on it acts when it fires. An object for which it has fired in shadow, and whose condition is still true, does not fire again. It acts as it is saved: what you have changed and not saved is dropped.</p>
        <p role="status">{past.isPending ? "Counting how often it would have fired…" : past.data && countText(past.data)}</p>
      </Form>
    </Dialog>
  );
}

function countText(answer: Awaited<ReturnType<typeof replay>>): string {
  if (isRun(answer)) return "There is too much of the past to count it here; Replay, beside the rule, does.";
  return `In the last ${DAYS} days it would have fired ${plural(answer.firings, "time")} for ${plural(answer.objects, "object")}${answer.complete ? "" : ", or more: part of that time is not kept any more"}.`;
}
