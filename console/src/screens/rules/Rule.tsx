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

function Opened({ rule }: { rule: RuleRecord }) {
  const { tab = "rule" } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const canWrite = useMay()("rules.write");
  const [deleting, setDeleting] = useState(false);
  const toggle = (enabled: boolean) =>
    void updateRule(rule.id, { enabled }).then(
      () => toast(enabled ? "The rule is on." : "The rule is off."),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
  const select = (next: string) => void navigate({ to: rulePath(rule.id), search: { tab: next === "rule" ? "" : next } as never, replace: true });
  const form = (
    <RuleForm
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
      about={<RuleMode rule={rule} />}
      actions={
        canWrite && (
          <div className={styles.head}>
            <Switch isSelected={rule.enabled} onChange={toggle}>
              On
            </Switch>
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
