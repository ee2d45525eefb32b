// What a rule would have done: how often by day, on whom, which other rules say the same, and how often people agreed.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { Button } from "../../parts/Button";
import { Chart } from "../../parts/Chart";
import { SelectField } from "../../parts/Field";
import { Problem } from "../../parts/Form";
import { Link, ObjectLink } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Empty, Skeleton } from "../../parts/States";
import { Table } from "../../parts/Table";
import { absoluteTime, count, percent, plural, Time } from "../../parts/Values";
import { isRun, replay, replayRunQuery, type Replay } from "./queries";
import styles from "./Rules.module.css";
import { rulePath } from "./rule-path";
import { valuesText } from "./values";

const SPANS = [
  { id: "7", label: "The last 7 days" },
  { id: "30", label: "The last 30 days" },
  { id: "all", label: "All that is kept" },
];
const DAY_MS = 86_400_000;
const UTC_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

interface Props {
  when: string;
  cooldownSeconds: number;
  /** The rule that is edited, which is not compared with itself. */
  ownId?: string;
}

export function ReplayPanel({ when, cooldownSeconds, ownId }: Props) {
  const [span, setSpan] = useState("30");
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const [shown, setShown] = useState<{ of: string; result?: Replay; runId?: string }>();
  const of = `${when}\n${cooldownSeconds}\n${span}`;
  const run = async () => {
    setPending(true);
    setProblem(undefined);
    try {
      const from = span === "all" ? undefined : new Date(Date.now() - Number(span) * DAY_MS).toISOString();
      const answer = await replay(when, cooldownSeconds, from);
      setShown(isRun(answer) ? { of, runId: answer.id } : { of, result: answer });
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(false);
    }
  };
  return (
    <Section title="Replay" about="What this condition would have done over the past answers. No model runs, nothing is sent, nothing is charged.">
      <div className={styles.stack}>
        <div className={styles.bar}>
          <div className={styles.select}>
            <SelectField name="span" label="Over" options={SPANS} value={span} onChange={setSpan} />
          </div>
          <Button icon="start" isPending={pending} isDisabled={when.trim() === ""} onPress={() => void run()}>
            Replay
          </Button>
        </div>
        {problem !== undefined && <Problem problem={problem} />}
        {shown && shown.of !== of && <Notice tone="warn">The condition, the cooldown or the time has changed since. Replay it again.</Notice>}
        {!shown && problem === undefined && <Empty icon="rules" title="Not replayed yet">See how often the rule would have fired, and on whom, before you save it.</Empty>}
        {shown?.result && <Result result={shown.result} ownId={ownId} />}
        {shown?.runId && <Background id={shown.runId} ownId={ownId} />}
      </div>
    </Section>
  );
}

/** A replay over a long past runs in the background. */
function Background({ id, ownId }: { id: string; ownId?: string }) {
  const run = useQuery(replayRunQuery(id));
  if (run.error) return <Problem problem={run.error} />;
  if (run.data?.status === "failed") return <Problem problem={new Error(run.data.error ?? "the replay failed")} />;
  if (run.data?.status === "done") return <Result result={run.data as Replay} ownId={ownId} />;
  return (
    <>
      <Notice>{`Replaying ${run.data ? plural(run.data.analyses, "analysis", "analyses") : "a long past"} in the background.`}</Notice>
      <Skeleton lines={4} label="Replaying" />
    </>
  );
}

const FEWEST_DAYS = 7;

/** Firings of every day of the replay, also of days without any; a short past is drawn as a week. */
function everyDay({ by_day, from, to }: Replay): { seconds: number[]; firings: number[] } {
  const firingsOn = new Map(by_day.map((day) => [Date.parse(day.day), day.firings]));
  const last = Math.floor(Date.parse(to) / DAY_MS) * DAY_MS;
  const first = Math.min(Math.floor(Date.parse(from) / DAY_MS) * DAY_MS, last - (FEWEST_DAYS - 1) * DAY_MS);
  const days: number[] = [];
  for (let day = first; day <= last; day += DAY_MS) days.push(day);
  return { seconds: days.map((day) => day / 1000), firings: days.map((day) => firingsOn.get(day) ?? 0) };
}

function Result({ result, ownId }: { result: Replay; ownId?: string }) {
  const days = everyDay(result);
  const overlap = result.overlap.filter((other) => other.rule_id !== ownId);
  return (
    <div className={styles.stack} role="status">
      <p>
        <strong className={styles.figure}>{plural(result.firings, "firing")}</strong> on {plural(result.objects, "object")}, from {absoluteTime(result.from)} to {absoluteTime(result.to)}.
      </p>
      {!result.complete && <Notice tone="warn">Part of this time is not kept any more, so the rule would have fired at least this often.</Notice>}
      {result.firings > 0 && (
        <Chart
          title="Firings by UTC day"
          x={days.seconds}
          xName="Day (UTC)"
          time
          height={160}
          format={count}
          formatX={(seconds) => UTC_DAY.format(seconds * 1000)}
          series={[{ name: "Firings", kind: "bars", values: days.firings }]}
        />
      )}
      <Labelled result={result} />
      <Examples result={result} />
      <Overlap overlap={overlap} />
    </div>
  );
}

function Labelled({ result }: { result: Replay }) {
  const rows = Object.entries(result.labelled).map(([signal, figures]) => ({ signal, ...figures }));
  return (
    <div>
      <h3>Where people said what is true</h3>
      <Table
        label="Precision and recall by signal"
        rows={rows}
        keyOf={(row) => row.signal}
        columns={[
          { id: "signal", name: "Signal", cell: (row) => <code>{row.signal}</code> },
          { id: "precision", name: "Precision", numeric: true, cell: (row) => (row.precision === undefined ? "unknown" : percent(row.precision)) },
          { id: "recall", name: "Recall", numeric: true, cell: (row) => (row.recall === undefined ? "unknown" : percent(row.recall)) },
        ]}
        empty={<p className={styles.soft}>Not known for this condition. It takes labels about its signals: label some of the objects below.</p>}
      />
    </div>
  );
}

const SHOWN_EXAMPLES = 10;

function Examples({ result }: { result: Replay }) {
  const [all, setAll] = useState(false);
  const rows = all ? result.examples : result.examples.slice(0, SHOWN_EXAMPLES);
  if (rows.length === 0) return null;
  return (
    <div>
      <h3>On whom</h3>
      <Table
        label="Objects it would have fired for"
        rows={rows}
        keyOf={(row) => `${row.object_id} ${row.at}`}
        columns={[
          { id: "object", name: "Object", long: true, cell: (row) => <ObjectLink id={row.object_id} /> },
          { id: "values", name: "Answers then", cell: (row) => valuesText(row.signal_values) },
          { id: "at", name: "When", cell: (row) => <Time at={row.at} /> },
        ]}
      />
      {!all && result.examples.length > SHOWN_EXAMPLES && (
        <Button kind="quiet" onPress={() => setAll(true)}>{`Show ${result.examples.length} examples`}</Button>
      )}
    </div>
  );
}

function Overlap({ overlap }: { overlap: Replay["overlap"] }) {
  return (
    <div>
      <h3>Other rules on the same objects</h3>
      <Table
        label="Overlap with other rules"
        rows={overlap}
        keyOf={(row) => row.rule_id}
        columns={[
          { id: "rule", name: "Rule", long: true, cell: (row) => <Link to={rulePath(row.rule_id)}>{row.name}</Link> },
          { id: "both", name: "Both", numeric: true, cell: (row) => count(row.both) },
          { id: "this", name: "Only this", numeric: true, cell: (row) => count(row.only_this) },
          { id: "that", name: "Only that", numeric: true, cell: (row) => count(row.only_that) },
        ]}
        empty={<p className={styles.soft}>No other rule fired for these objects.</p>}
      />
    </div>
  );
}
