// Trials: the draft's wording, put to objects that are there and compared with the present one before anything changes.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { ChoiceField, TextField } from "../../parts/Field";
import { Form, Problem } from "../../parts/Form";
import { Notice } from "../../parts/Notice";
import { Columns, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { Table } from "../../parts/Table";
import { toast } from "../../parts/Toast";
import { count, moneyOfMicros, plural, Time } from "../../parts/Values";
import { DefinitionFields } from "./DefinitionFields";
import { definitionOf, isDraftChanged, problemOf, type Draft } from "./definition";
import type { Signal } from "./queries";
import styles from "./Signals.module.css";
import { TrialResult, TrialStatus } from "./TrialResult";
import { priceOfTrial, startTrial, trialsQuery, type TrialPrice, type TrialRequest } from "./trial-queries";

interface Props {
  signal: Signal;
  draft: Draft;
  setDraft: (draft: Draft) => void;
}

export function Trials({ signal, draft, setDraft }: Props) {
  const trials = useQuery(trialsQuery(signal.key));
  const may = useMay();
  const [opened, setOpened] = useState<string>();
  if (trials.isPending) return <Skeleton lines={6} />;
  if (trials.error) return <Failed error={trials.error} retry={() => void trials.refetch()} />;
  const shown = opened ?? trials.data[0]?.id;
  return (
    <div className={styles.stack}>
      <Columns>
        {may("trials.write") && <NewTrial signal={signal} draft={draft} setDraft={setDraft} onStart={setOpened} />}
        <Section title="Trials" flush>
          <Table
            label="Trials"
            rows={trials.data}
            keyOf={(trial) => trial.id}
            onOpen={(trial) => setOpened(trial.id)}
            columns={[
              { id: "started", name: "Started", cell: (trial) => <Time at={trial.created_at} /> },
              { id: "status", name: "Status", cell: (trial) => <TrialStatus trial={trial} /> },
              { id: "objects", name: "Objects", numeric: true, cell: (trial) => `${count(trial.completed)} of ${count(trial.total)}` },
              { id: "cost", name: "Spent", numeric: true, cell: (trial) => moneyOfMicros(trial.cost_micros) },
              { id: "open", name: "Result", cell: (trial) => <Button kind="quiet" aria-pressed={trial.id === shown} onPress={() => setOpened(trial.id)}>Show</Button> },
            ]}
            empty={<Empty icon="signals" title="No trials yet">A trial asks another wording about objects that are there and records nothing but the comparison.</Empty>}
          />
        </Section>
      </Columns>
      {shown && <TrialResult signal={signal} id={shown} />}
    </div>
  );
}

const OVER = [
  { id: "labelled", label: "Labelled objects", hint: "Compares both wordings with what people said. Each is read up to the event that its label saw." },
  { id: "recent", label: "Recently analyzed objects", hint: "Shows which answers would change side." },
  { id: "query", label: "Objects that match a condition", hint: "For example those near a threshold." },
];

function NewTrial({ signal, draft, setDraft, onStart }: Props & { onStart: (id: string) => void }) {
  const [over, setOver] = useState("labelled");
  const [priced, setPriced] = useState<{ body: TrialRequest; price: TrialPrice }>();
  const [problem, setProblem] = useState<unknown>();
  const isChanged = isDraftChanged(signal, draft);
  const isTypeChanged = draft.type !== signal.type;
  const askPrice = async (values: Record<string, string>) => {
    const wrong = problemOf(draft);
    if (wrong) throw new Error(wrong);
    const { instructions, criteria } = definitionOf(draft);
    const body: TrialRequest = { instructions, criteria, over: over === "query" ? { q: values.q ?? "" } : (over as "labelled" | "recent"), limit: Number(values.limit) };
    setPriced({ body, price: await priceOfTrial(signal.key, body) });
  };
  const start = async () => {
    if (!priced) return;
    try {
      onStart((await startTrial(signal.key, priced.body)).id);
      setPriced(undefined);
      toast("The trial has started.");
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <Section title="New trial" about="Of the draft below, which is the one beside the playground too.">
      <div className={styles.stack}>
        <Form submit="Show the price" fields={["instructions", "limit", "q"]} isDisabled={!isChanged || isTypeChanged} onSubmit={askPrice}>
          <DefinitionFields draft={draft} onChange={setDraft} />
          {isTypeChanged && <Notice tone="warn">A trial compares wordings of the same type.</Notice>}
          {!isChanged && <Notice>Change the wording first: a trial compares it with the present one.</Notice>}
          <ChoiceField name="over" label="Over" options={OVER} value={over} onChange={setOver} />
          {over === "query" && <TextField name="q" label="Condition" code isRequired placeholder={`${signal.key} > 0.4 and ${signal.key} < 0.6`} />}
          <TextField name="limit" label="At most" type="number" inputMode="numeric" defaultValue="100" hint="Objects, from 1 to 1,000. One call of the model for each." isRequired />
        </Form>
        {problem !== undefined && <Problem problem={problem} />}
        {priced && (
          <Notice action={<Button kind="primary" isDisabled={priced.price.objects === 0} onPress={() => void start()}>Start the trial</Button>}>
            {`${plural(priced.price.objects, "object")}, about ${moneyOfMicros(priced.price.estimated_cost_micros)}.`}
          </Notice>
        )}
      </div>
    </Section>
  );
}
