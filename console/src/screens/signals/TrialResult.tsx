// What a trial found: both wordings side by side, the difference with its interval, and the objects whose answer changes side.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { useMay } from "../../api/session";
import { AnswerInline } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { plainForeign } from "../../parts/Foreign";
import { ObjectLink } from "../../parts/Link";
import { Badge, Notice } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { Table } from "../../parts/Table";
import { toast } from "../../parts/Toast";
import { count, moneyOfMicros, percent, plural } from "../../parts/Values";
import type { Signal } from "./queries";
import styles from "./Signals.module.css";
import { adoptTrial, cancelTrial, trialQuery, type Trial } from "./trial-queries";

type Figure = Schemas["Figure"];

export function TrialStatus({ trial }: { trial: Trial }) {
  if (trial.status === "running") return <Badge tone="info">running</Badge>;
  return trial.status === "done" ? <Badge tone="good">done</Badge> : <Badge>cancelled</Badge>;
}

export function TrialResult({ signal, id }: { signal: Signal; id: string }) {
  const result = useQuery(trialQuery(signal.key, id));
  const may = useMay();
  const [adopting, setAdopting] = useState(false);
  if (result.isPending) return <Skeleton lines={6} />;
  if (result.error) return <Failed error={result.error} retry={() => void result.refetch()} />;
  const trial = result.data;
  const cancel = () =>
    void cancelTrial(signal.key, id).then(
      () => toast("The trial is cancelled."),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
  return (
    <Section
      title="Result"
      about={`${count(trial.completed)} of ${plural(trial.total, "object")} asked, ${moneyOfMicros(trial.cost_micros)} spent${trial.agreement === undefined ? "" : `; ${percent(trial.agreement.value)} of the answers stay on the same side`}.`}
      actions={
        <>
          {trial.status === "running" && may("trials.write") && <Button onPress={cancel}>Cancel the trial</Button>}
          {trial.status === "done" && may("signals.write") && <Button kind="primary" onPress={() => setAdopting(true)}>Adopt this wording…</Button>}
        </>
      }
    >
      <div className={styles.stack}>
        {trial.status === "running" && <progress className={styles.progress} aria-label="Progress of the trial" max={Math.max(trial.total, 1)} value={trial.completed} />}
        {trial.present?.needs !== undefined && <Notice>{`Only ${plural(trial.present.labels, "object")} of the trial ${trial.present.labels === 1 ? "is" : "are"} labelled. Figures need ${plural(trial.present.needs, "more label")}.`}</Notice>}
        {trial.difference && <Comparison trial={trial} />}
        {trial.difference && trial.present?.selected && <Notice tone="warn">{trial.present.selected_note}</Notice>}
        <Flips trial={trial} />
      </div>
      <ConfirmDialog
        title="Adopt this wording?"
        isOpen={adopting}
        onClose={() => setAdopting(false)}
        act="Adopt it"
        onConfirm={async () => {
          await adoptTrial(signal.key, id);
          toast("The wording of the trial is the signal’s next version.");
        }}
      >
        <p>It becomes the next version of {signal.key}. A calibration is off after a new wording; rules compare the new answers as objects are analyzed again.</p>
      </ConfirmDialog>
    </Section>
  );
}

const FIGURES = [
  { id: "accuracy", name: "Right answers", better: 1 },
  { id: "auc", name: "AUC", better: 1 },
  { id: "brier", name: "Brier score (lower is better)", better: -1 },
] as const;

const shown = (figure: Figure | undefined, id: string) => (figure === undefined ? "" : id === "accuracy" ? percent(figure.value) : figure.value.toFixed(3));

function Verdict({ figure, better }: { figure: Figure; better: 1 | -1 }) {
  if (figure.low <= 0 && figure.high >= 0) return <Badge>within chance</Badge>;
  return figure.value * better > 0 ? <Badge tone="good">better</Badge> : <Badge tone="bad">worse</Badge>;
}

function Comparison({ trial }: { trial: Trial }) {
  const rows = FIGURES.filter(({ id }) => trial.present?.[id] && trial.proposed?.[id]);
  return (
    <Table
      label="Present and proposed wording"
      rows={rows}
      keyOf={(row) => row.id}
      columns={[
        { id: "figure", name: "Over labelled objects", cell: (row) => row.name },
        { id: "present", name: "Present", numeric: true, cell: (row) => shown(trial.present?.[row.id], row.id) },
        { id: "proposed", name: "Proposed", numeric: true, cell: (row) => shown(trial.proposed?.[row.id], row.id) },
        {
          id: "difference",
          name: "Difference (95 %)",
          numeric: true,
          cell: (row) => {
            const figure = trial.difference?.[row.id];
            return figure ? `${figure.value.toFixed(3)} (${figure.low.toFixed(3)} to ${figure.high.toFixed(3)})` : "";
          },
        },
        {
          id: "verdict",
          name: "Verdict",
          cell: (row) => {
            const figure = trial.difference?.[row.id];
            return figure && <Verdict figure={figure} better={row.better} />;
          },
        },
      ]}
    />
  );
}

function Flips({ trial }: { trial: Trial }) {
  return (
    <div>
      <h3>Answers that change side</h3>
      <Table
        label="Answers that change side"
        rows={trial.flips ?? []}
        keyOf={(flip) => flip.object_id}
        columns={[
          { id: "object", name: "Object", long: true, cell: (flip) => <ObjectLink id={flip.object_id} /> },
          { id: "present", name: "Present", cell: (flip) => <AnswerInline answer={flip.present} label={`Present answer about ${plainForeign(flip.object_id)}`} /> },
          { id: "proposed", name: "Proposed", cell: (flip) => <AnswerInline answer={flip.proposed} label={`Proposed answer about ${plainForeign(flip.object_id)}`} /> },
        ]}
        empty={<Empty icon="good" title={trial.status === "running" ? "None so far" : "No answer changes side"} />}
      />
    </div>
  );
}
