// How the answer to one signal changed with each analysis.
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import type { Schemas } from "../../api/client";
import { answersQuery } from "../../api/objects";
import { Chart, type Series } from "../../parts/Chart";
import { SelectField } from "../../parts/Field";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { percent, plural, timeZone } from "../../parts/Values";
import { WhenSeen } from "../../parts/WhenSeen";
import styles from "./Object.module.css";

type Records = readonly Schemas["AnalysisRecord"][];

const AT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export function AnswersOverTime({ objectId, signals, answered }: { objectId: string; signals: readonly Schemas["Signal"][]; answered: readonly string[] }) {
  const options = signals.filter(({ key }) => answered.includes(key));
  const first = options.find(({ type }) => type === "noul") ?? options[0];
  const [picked, setPicked] = useState<string>();
  const signal = options.find(({ key }) => key === picked) ?? first;
  if (!signal) return null;
  return (
    <Section title="Answers over time">
      <div className={styles.pick}>
        <SelectField name="signal" label="Signal" options={options.map(({ key }) => ({ id: key, label: key }))} value={signal.key} onChange={setPicked} />
      </div>
      <WhenSeen placeholder={<Skeleton lines={5} />}>
        <Past objectId={objectId} signal={signal} />
      </WhenSeen>
    </Section>
  );
}

function Past({ objectId, signal }: { objectId: string; signal: Schemas["Signal"] }) {
  const past = useQuery(answersQuery(objectId, signal.key));
  const chart = useMemo(() => past.data && chartOf(past.data, signal), [past.data, signal]);
  if (past.isPending) return <Skeleton lines={5} />;
  if (past.error) return <Failed error={past.error} retry={() => void past.refetch()} />;
  if (!chart || chart.x.length < 2) {
    return (
      <Empty icon="quality" title={chart?.x.length === 1 ? "One analysis so far" : "Nothing is kept of earlier answers"}>
        The course of an answer shows from the second analysis on.
      </Empty>
    );
  }
  return (
    <Chart
      title={`${signal.key} over ${plural(chart.x.length, "analysis", "analyses")}, times in ${timeZone}`}
      xName={`Time (${timeZone})`}
      x={chart.x}
      series={chart.series}
      height={200}
      formatX={(seconds) => AT.format(seconds * 1000)}
      {...(signal.type === "score" ? { format: (value: number) => value.toFixed(1), yRange: [0, chart.top] as [number, number] } : { format: (value: number) => percent(value), yRange: [0, 1] as [number, number] })}
    />
  );
}

/** The analyses in the order of time; for a choice one line an option. */
function chartOf(records: Records, signal: Schemas["Signal"]): { x: number[]; series: Series[]; top: number } {
  const points = records
    .flatMap((record) => record.answers.filter((answer) => answer.signal === signal.key).map((answer) => ({ at: Date.parse(record.at) / 1000, answer })))
    .reverse();
  const x = points.map(({ at }) => at);
  const levels = Math.max(1, ...points.map(({ answer }) => Object.keys(answer.probabilities ?? {}).length - 1));
  if (signal.type !== "choice") return { x, top: levels, series: [{ name: signal.key, values: points.map(({ answer }) => answer.noul ?? answer.score ?? null) }] };
  const options = [...new Set(points.flatMap(({ answer }) => Object.keys(answer.probabilities ?? {})))];
  return { x, top: 1, series: options.map((option) => ({ name: option, values: points.map(({ answer }) => answer.probabilities?.[option] ?? null) })) };
}
