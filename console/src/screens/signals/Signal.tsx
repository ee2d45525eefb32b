// The workbench of one signal: its wording with the playground beside it, trials, versions, and the backfill.
import { useQuery, useSuspenseQueries } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { rulesQuery, signalsQuery, usageQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { monthlyMicros, rulesReading, type Rule } from "../../api/signal-use";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Switch } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Badge, Notice } from "../../parts/Notice";
import { Columns, Screen, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Tabs } from "../../parts/Tabs";
import { toast } from "../../parts/Toast";
import { UnsavedGuard } from "../../parts/Unsaved";
import { moneyOfMicros, plural } from "../../parts/Values";
import { Backfill } from "./Backfill";
import { DefinitionFields } from "./DefinitionFields";
import { definitionOf, draftOf, isDraftChanged, linesOf, problemOf, typeName, type Draft } from "./definition";
import { Playground, usePlayground } from "./Playground";
import { deleteSignal, putSignal, type Signal as SignalRecord } from "./queries";
import styles from "./Signals.module.css";
import { Answers, signalPath } from "./Signals";
import { Trials } from "./Trials";
import { Versions } from "./Versions";

export default function Signal() {
  const { key } = useParams({ strict: false }) as { key: string };
  const [{ data: signals }, { data: rules }] = useSuspenseQueries({ queries: [signalsQuery, rulesQuery] });
  const signal = signals.find((candidate) => candidate.key === key);
  const playground = usePlayground();
  if (!signal) {
    return (
      <Screen title={key}>
        <Empty icon="signals" title="There is no signal of this key" action={<Link to="/console/signals" kind="plain">All signals</Link>}>
          It may have been deleted.
        </Empty>
      </Screen>
    );
  }
  // A new definition, such as a version that was restored, starts the form afresh; the playground stays.
  return <Workbench key={linesOf(signal).join("\n")} signal={signal} rules={rulesReading(key, rules)} playground={playground} />;
}

interface WorkbenchProps {
  signal: SignalRecord;
  rules: Rule[];
  playground: ReturnType<typeof usePlayground>;
}

function Workbench({ signal, rules, playground }: WorkbenchProps) {
  const { tab = "wording" } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const may = useMay();
  const [draft, setDraft] = useState<Draft>(() => draftOf(signal));
  const [deleting, setDeleting] = useState(false);
  const canWrite = may("signals.write");
  const isChanged = isDraftChanged(signal, draft);
  const select = (next: string) => void navigate({ to: signalPath(signal.key), search: { tab: next === "wording" ? "" : next } as never, replace: true });
  return (
    <Screen
      title={signal.key}
      about={`${typeName(signal.type)} signal`}
      actions={
        canWrite && (
          <Button kind="danger" onPress={() => setDeleting(true)}>
            Delete…
          </Button>
        )
      }
    >
      <Summary signal={signal} rules={rules} canWrite={canWrite} />
      <Tabs
        label="Parts of the signal"
        selected={tab}
        onSelect={select}
        tabs={[
          { id: "wording", name: "Wording", content: <Wording signal={signal} draft={draft} setDraft={setDraft} playground={playground} canWrite={canWrite} rules={rules} /> },
          { id: "trials", name: "Trials", content: <Trials signal={signal} draft={draft} setDraft={setDraft} /> },
          { id: "versions", name: "Versions", content: <Versions signal={signal} /> },
          { id: "backfill", name: "Backfill", content: <Backfill signal={signal} /> },
        ]}
      />
      <UnsavedGuard isChanged={() => isChanged} />
      <DeleteDialog signal={signal} rules={rules} isOpen={deleting} onClose={() => setDeleting(false)} />
    </Screen>
  );
}

function Summary({ signal, rules, canWrite }: { signal: SignalRecord; rules: Rule[]; canWrite: boolean }) {
  const may = useMay();
  const usage = useQuery({ ...usageQuery, enabled: may("money.read") }).data;
  const price = monthlyMicros(signal.key, usage);
  const toggle = async (enabled: boolean) => {
    const { type, instructions, criteria } = signal;
    await putSignal(signal.key, { type, instructions, criteria, enabled }).then(
      () => toast(enabled ? `${signal.key} is asked again.` : `${signal.key} is not asked any more.`),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
  };
  return (
    <Section>
      <div className={styles.summary}>
        {canWrite ? (
          <Switch isSelected={signal.enabled} onChange={(enabled) => void toggle(enabled)}>
            Enabled
          </Switch>
        ) : (
          <Badge tone={signal.enabled ? "good" : "warn"}>{signal.enabled ? "enabled" : "disabled"}</Badge>
        )}
        <div>
          <span className={styles.soft}>Answers now</span> <Answers signal={signal} />
        </div>
        {price !== undefined && (
          <div>
            <span className={styles.soft}>Price a month</span> {moneyOfMicros(price)}
          </div>
        )}
        <div>
          <span className={styles.soft}>Read by</span>
          {rules.length === 0 ? "no rule" : rules.slice(0, 3).map((rule) => <Link key={rule.id} to={`/console/rules/${rule.id}`}>{rule.name}</Link>)}
          {rules.length > 3 && ` and ${plural(rules.length - 3, "other")}`}
        </div>
        <Link to="/console/quality" search={{ signal: signal.key }}>
          Quality
        </Link>
      </div>
      {!signal.enabled && (
        <Notice tone="warn">While it is disabled, analyses do not ask it, its answers are kept but hidden, and rules that read it are suspended.</Notice>
      )}
    </Section>
  );
}

interface WordingProps {
  signal: SignalRecord;
  draft: Draft;
  setDraft: (draft: Draft) => void;
  playground: ReturnType<typeof usePlayground>;
  canWrite: boolean;
  rules: Rule[];
}

function Wording({ signal, draft, setDraft, playground, canWrite, rules }: WordingProps) {
  const canAsk = useMay()("playground");
  const isChanged = isDraftChanged(signal, draft);
  const live = rules.filter((rule) => rule.enabled && rule.mode !== "shadow").length;
  const save = async () => {
    const problem = problemOf(draft);
    if (problem) throw new Error(problem);
    await putSignal(signal.key, definitionOf(draft));
    toast("Saved as the next version. Objects keep their answer until their next analysis.");
  };
  return (
    <Columns>
      <Section title="Wording">
        {canWrite ? (
          <Form
            submit="Save as the next version"
            fields={["instructions"]}
            isDisabled={!isChanged}
            beside={isChanged && <Button onPress={() => setDraft(draftOf(signal))}>Discard the changes</Button>}
            onSubmit={save}
          >
            <DefinitionFields draft={draft} onChange={setDraft} />
            {draft.type !== signal.type && <Notice tone="warn">Another type asks another question: saving drops all present answers to this signal.</Notice>}
            {isChanged && live > 0 && <Notice>{`${plural(live, "live rule")} ${live === 1 ? "compares" : "compare"} these answers. A new wording may move them across a threshold.`}</Notice>}
          </Form>
        ) : (
          <div className={styles.form}>
            <DefinitionFields draft={draft} onChange={setDraft} isDisabled={!canAsk} />
            <p className={styles.soft}>{canAsk && "You can change the wording here to try it in the playground. "}An admin or an owner can save another wording.</p>
          </div>
        )}
      </Section>
      <Playground signal={signal} draft={draft} state={playground} />
    </Columns>
  );
}

function DeleteDialog({ signal, rules, isOpen, onClose }: { signal: SignalRecord; rules: Rule[]; isOpen: boolean; onClose: () => void }) {
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      title={`Delete ${signal.key}?`}
      isOpen={isOpen}
      onClose={onClose}
      act="Delete the signal"
      typed={signal.key}
      goes={["its present answers about all objects", "its labels, trials and calibrations", "its wording; version numbers go on if the key returns"]}
      onConfirm={async () => {
        await deleteSignal(signal.key);
        toast(`${signal.key} is deleted.`);
        await navigate({ to: "/console/signals" as string, ignoreBlocker: true });
      }}
    >
      {rules.length > 0 && <Notice tone="warn">{`${plural(rules.length, "rule")} ${rules.length === 1 ? "reads" : "read"} it and will not match any more: ${rules.map((rule) => rule.name).join(", ")}.`}</Notice>}
      <p>To stop asking it and keep everything, disable it instead.</p>
    </ConfirmDialog>
  );
}
