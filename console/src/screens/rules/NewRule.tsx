// A new rule. It starts in shadow, so that nobody is mailed by accident.
import { useNavigate, useSearch } from "@tanstack/react-router";

import { useMay } from "../../api/session";
import { GuardedScreen } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { createRule } from "./queries";
import { RuleForm } from "./RuleForm";
import { rulePath } from "./rule-path";

export default function NewRule() {
  const navigate = useNavigate();
  const { when } = useSearch({ strict: false }) as { when?: string };
  const canWrite = useMay()("rules.write");
  return (
    <GuardedScreen needs="rules.write" title="New rule" about="Write the condition, replay it, and create the rule in shadow. It can go live at any time.">
      <RuleForm
        start={when}
        canWrite={canWrite}
        onSave={async (body) => {
          const rule = await createRule(body);
          toast(`${rule.mode === "shadow" ? "The rule runs in shadow" : "The rule is live"}. Firings shows when it fires.`);
          await navigate({ to: rulePath(rule.id) });
        }}
      />
    </GuardedScreen>
  );
}
