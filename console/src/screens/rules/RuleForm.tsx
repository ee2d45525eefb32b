// The form of a rule, with its replay beside it: what the rule would have done stands there before it is saved.
import { useSuspenseQueries } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { endpointsQuery, signalsQuery } from "../../api/queries";
import { ConditionEditor } from "../../parts/Condition";
import { ChoiceField, SelectField, TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Notice } from "../../parts/Notice";
import { Columns, Section } from "../../parts/Screen";
import { ACTIONS, configOf, cooldownText, withoutPrefix } from "./action";
import { ActionFields } from "./ActionFields";
import { ActionTest } from "./ActionTest";
import type { ActionType, Rule } from "./queries";
import { ReplayPanel } from "./ReplayPanel";
import styles from "./Rules.module.css";

/** What live does with objects that match already depends on whether the rule has looked at them in shadow. */
const modesOf = (rule: Rule | undefined) => [
  { id: "shadow", label: "Shadow", hint: "Records when it would fire, and sends nothing." },
  {
    id: "live",
    label: "Live",
    hint:
      rule?.mode === "shadow"
        ? "Acts when it fires from now on. An object for which it has fired in shadow, and whose condition is still true, does not fire again."
        : "Acts when an analysis finds its condition true for an object and it was not before. An object that matches already fires at its next analysis, not at once.",
  },
];

const COOLDOWNS = [0, 3600, 21_600, 86_400, 604_800];
const FIELDS = ["name", "to", "subject", "webhook_url", "endpoint_id", "queue"];

interface Props {
  rule?: Rule;
  /** The condition that a new rule starts with. */
  start?: string;
  canWrite: boolean;
  onSave: (body: Schemas["RuleCreate"]) => Promise<void>;
}

/** What of a rule is no text field, as it is saved; of a new one, as the form starts. */
const savedOf = (rule: Rule | undefined, start: string) => ({
  when: rule?.when ?? start,
  mode: rule?.mode ?? (rule ? "live" : "shadow"),
  type: rule?.action_type ?? ("review" as ActionType),
  cooldown: rule?.cooldown_seconds ?? 0,
  reviewed: rule?.action_config.signals ?? [],
});

export function RuleForm({ rule, start = "", canWrite, onSave }: Props) {
  const [{ data: signals }, { data: endpoints }] = useSuspenseQueries({ queries: [signalsQuery, endpointsQuery] });
  const saved = savedOf(rule, start);
  const [when, setWhen] = useState(saved.when);
  const [mode, setMode] = useState<string>(saved.mode);
  const [type, setType] = useState(saved.type);
  const [cooldown, setCooldown] = useState(saved.cooldown);
  const [reviewed, setReviewed] = useState(saved.reviewed);
  const isChanged = canWrite && JSON.stringify({ when, mode, type, cooldown, reviewed }) !== JSON.stringify(saved);
  const config = rule?.action_type === type ? rule.action_config : {};
  const save = async (values: Record<string, string>) => {
    if (when.trim() === "") throw new Error("Write a condition first.");
    const name = values.name?.trim();
    await onSave({ name: name || when.trim(), when, action_type: type, action_config: configOf(type, values, reviewed) as never, mode: mode as "live" | "shadow", cooldown_seconds: cooldown });
  };
  return (
    <Columns>
      <Section title="Rule">
        <Form submit={rule ? "Save the rule" : "Create the rule"} fields={FIELDS} isDisabled={!canWrite} guard={{ isChanged }} onSubmit={(values) => save(values).catch(asFormField)}>
          <ConditionEditor label="Condition" value={when} onChange={setWhen} signals={signals} use="rule" />
          {rule && when !== rule.when && <Notice>A changed condition starts afresh: what is already true fires once more.</Notice>}
          <TextField name="name" label="Name" defaultValue={rule?.name} hint="Optional; otherwise the condition." autoComplete="off" />
          <SelectField
            name="cooldown"
            label="Fires for an object"
            options={[...new Set([...COOLDOWNS, cooldown])].map((seconds) => ({ id: String(seconds), label: cooldownText(seconds) }))}
            value={String(cooldown)}
            onChange={(value) => setCooldown(Number(value))}
          />
          <ChoiceField name="action" label="Action" options={ACTIONS} value={type} onChange={(value) => setType(value as ActionType)} />
          <div className={styles.action}>
            <ActionFields key={type} type={type} config={config} endpoints={endpoints} signals={signals} reviewed={reviewed} onReviewed={setReviewed} />
            {canWrite && type !== "review" && !(type === "webhook" && endpoints.length === 0) && <ActionTest type={type} />}
          </div>
          <ChoiceField name="mode" label="Mode" options={modesOf(rule)} value={mode} onChange={setMode} />
          {!canWrite && <Notice>An admin or an owner can save rules. You can try conditions and replay them.</Notice>}
        </Form>
      </Section>
      <ReplayPanel when={when} cooldownSeconds={cooldown} ownId={rule?.id} />
    </Columns>
  );
}

/** An error of the action stands beside the field that it is about. */
function asFormField(error: unknown): never {
  throw withoutPrefix(error);
}
