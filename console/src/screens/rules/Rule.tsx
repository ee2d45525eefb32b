// One rule: its form with the replay, and its firings.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { rulesQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Switch } from "../../parts/Field";
import { Link } from "../../parts/Link";
import { Screen } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Tabs } from "../../parts/Tabs";
import { toast } from "../../parts/Toast";
import { FiringsOf } from "./Firings";
import { deleteRule, updateRule, type Rule as RuleRecord } from "./queries";
import { rulePath } from "./rule-path";
import { RuleForm } from "./RuleForm";
import { GoLive } from "./GoLive";
import { RuleMode } from "./Rules";
import styles from "./Rules.module.css";

export default function Rule() {
  const { ruleId } = useParams({ strict: false }) as { ruleId: string };
  const { data: rules } = useSuspenseQuery(rulesQuery);
  const rule = rules.find((candidate) => candidate.id === ruleId);
  if (!rule) {
    return (
      <Screen title="Rule">
        <Empty icon="rules" title="There is no such rule" action={<Link to="/console/rules" kind="plain">All rules</Link>}>
          It may have been deleted.
        </Empty>
      </Screen>
    );
  }
  return <Opened key={ruleId} rule={rule} />;
}

/** What the switch and the mode mean together. */
function stateText({ enabled, mode }: RuleRecord): string {
  if (!enabled) return "It is off: nothing is evaluated.";
  return mode === "shadow" ? "It is on, in shadow: it records when it would fire, and sends nothing." : "It is on and live: it acts when it fires.";
}

function Opened({ rule }: { rule: RuleRecord }) {
  const { tab = "rule" } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const canWrite = useMay()("rules.write");
  const [deleting, setDeleting] = useState(false);
  const [going, setGoing] = useState(false);
  const toggle = (enabled: boolean) =>
    void updateRule(rule.id, { enabled }).then(
      () => toast(enabled ? "The rule is on." : "The rule is off."),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
  const select = (next: string) => void navigate({ to: rulePath(rule.id), search: { tab: next === "rule" ? "" : next } as never, replace: true });
  const form = (
    <RuleForm
      // It can go live beside the form, which would take it back to shadow when it is saved.
      key={rule.mode}
      rule={rule}
      canWrite={canWrite}
      onSave={async (body) => {
        await updateRule(rule.id, body);
        toast("Saved.");
      }}
    />
  );
  return (
    <Screen
      title={rule.name}
      about={
        <span className={styles.state}>
          <RuleMode rule={rule} /> {stateText(rule)}
        </span>
      }
      actions={
        canWrite && (
          <div className={styles.head}>
            <Switch isSelected={rule.enabled} onChange={toggle}>
              On
            </Switch>
            {rule.enabled && rule.mode === "shadow" && <Button onPress={() => setGoing(true)}>Go live…</Button>}
            <Button kind="danger" onPress={() => setDeleting(true)}>
              Delete…
            </Button>
          </div>
        )
      }
    >
      <Tabs
        label="Parts of the rule"
        selected={tab}
        onSelect={select}
        tabs={[
          { id: "rule", name: "Rule", content: form, keep: true },
          { id: "firings", name: "Firings", content: <FiringsOf rule={rule} /> },
        ]}
      />
      <GoLive rule={rule} isOpen={going} onClose={() => setGoing(false)} />
      <ConfirmDialog
        title={`Delete ${rule.name}?`}
        isOpen={deleting}
        onClose={() => setDeleting(false)}
        act="Delete the rule"
        goes={["the rule", "its state: for which objects the condition holds, and since when"]}
        onConfirm={async () => {
          await deleteRule(rule.id);
          toast("The rule is deleted.");
          await navigate({ to: "/console/rules" as string, ignoreBlocker: true });
        }}
      >
        <p>Its firings stay in the timelines of their objects, and what it has queued is still sent. To stop it and keep everything, turn it off.</p>
      </ConfirmDialog>
    </Screen>
  );
}
