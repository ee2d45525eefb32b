// How good the answers to a signal are, measured against what people said is true.
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { SelectField } from "../../parts/Field";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { Columns, Screen, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { count, percent, plural } from "../../parts/Values";
import { ByWeek } from "./ByWeek";
import { Calibration } from "./Calibration";
import { Confusion } from "./Confusion";
import { Escalation } from "./Escalation";
import { qualityQuery, versionsQuery, type Figure, type Quality } from "./queries";
import styles from "./Quality.module.css";
import { Reliability } from "./Reliability";
import { Thresholds } from "./Thresholds";

const ALL = "all";
const cost = (text: string | undefined): number => {
  const value = Number(text ?? 1);
  return Number.isFinite(value) && value > 0 ? value : 1;
};

export default function QualityScreen() {
  const { data: signals } = useSuspenseQuery(signalsQuery);
  const search = useSearch({ strict: false }) as { signal?: string };
  const signal = signals.find(({ key }) => key === search.signal) ?? signals.find(({ type }) => type === "noul") ?? signals[0];
  return (
    <Screen title="Quality" about="How often the answers are right, measured against labels: what people said is true.">
      {signal ? (
        <OneSignal key={signal.key} signal={signal} signals={signals} />
      ) : (
        <Section>
          <Empty icon="signals" title="No signals" action={<Link to="/console/signals" kind="primary">Make a signal</Link>}>
            Quality is measured for each signal.
          </Empty>
        </Section>
      )}
    </Screen>
  );
}

function OneSignal({ signal, signals }: { signal: Schemas["Signal"]; signals: readonly Schemas["Signal"][] }) {
  const search = useSearch({ strict: false }) as { version?: string; false_yes?: string; false_no?: string };
  const navigate = useNavigate();
  const may = useMay();
  const [isFirstRead, setFirstRead] = useState(true);
  // They come along with the quality.
  const known = useQuery({ ...versionsQuery(signal.key), enabled: !isFirstRead }).data;
  const versions = known ?? [];
  const asked = /^[1-9]\d{0,8}$/.test(search.version ?? "") ? Number(search.version) : undefined;
  const version = !known || known.some((each) => each.version === asked) ? asked : undefined;
  const costs = { costFalseYes: cost(search.false_yes), costFalseNo: cost(search.false_no) };
  const quality = useQuery(qualityQuery({ signal: signal.key, version, ...costs, withEscalation: may("money.read") }));
  if (isFirstRead && !quality.isPending) setFirstRead(false);
  const show = (next: Record<string, string | undefined>) =>
    void navigate({ to: "/console/quality" as string, search: { ...search, signal: signal.key, ...next } as never, replace: true, resetScroll: false });
  return (
    <>
      <div className={styles.pick}>
        <SelectField
          name="signal"
          label="Signal"
          options={signals.map((each) => ({ id: each.key, label: each.key }))}
          value={signal.key}
          onChange={(key) => show({ signal: key, version: undefined })}
        />
        <SelectField
          name="version"
          label="Version"
          options={[{ id: ALL, label: "All versions" }, ...versions.map((each) => ({ id: String(each.version), label: `${each.version}${each.calibration ? ", calibrated" : ""}` }))]}
          value={version === undefined ? ALL : String(version)}
          onChange={(id) => show({ version: id === ALL ? undefined : id })}
        />
      </div>
      {quality.isPending ? (
        <Skeleton lines={10} />
      ) : quality.error ? (
        <Failed error={quality.error} retry={() => void quality.refetch()} />
      ) : (
        <Measured quality={quality.data} signal={signal} costs={costs} onCosts={show} />
      )}
      {quality.data && <Calibration signal={signal} versions={versions} labels={quality.data.labels} />}
      {quality.data && <Escalation signal={signal} />}
    </>
  );
}

interface MeasuredProps {
  quality: Quality;
  signal: Schemas["Signal"];
  costs: { costFalseYes: number; costFalseNo: number };
  onCosts: (costs: Record<string, string>) => void;
}

function Measured({ quality, signal, costs, onCosts }: MeasuredProps) {
  if (quality.needs !== undefined) return <NeedsLabels quality={quality} />;
  return (
    <>
      <Figures quality={quality} />
      {quality.selected && quality.selected_note && <Notice tone="warn">{quality.selected_note}</Notice>}
      {quality.type === "noul" ? (
        <>
          <Thresholds quality={quality} signal={signal} costs={costs} onCosts={onCosts} />
          <Columns>
            <Reliability quality={quality} />
            <ByWeek quality={quality} />
          </Columns>
        </>
      ) : (
        <Columns>
          <Confusion quality={quality} signal={signal} />
          <ByWeek quality={quality} />
        </Columns>
      )}
    </>
  );
}

function NeedsLabels({ quality }: { quality: Quality }) {
  return (
    <Section>
      <Empty icon="quality" title={`${plural(quality.needs ?? 0, "more label")} needed`} action={<Link to="/console/explore" kind="primary">Find objects to label</Link>}>
        <p>
          {quality.labels === 0 ? "Nobody has said yet what is true." : `${plural(quality.labels, "label")} so far.`} Figures of fewer than 10 labels would say nothing, so none are shown. Label objects
          on their screens, work through a <Link to="/console/queue">queue</Link>, or send labels by the API.
        </p>
      </Empty>
    </Section>
  );
}

const decimal = (value: number): string => value.toFixed(3);

/** What each figure is called, what it means, and how it is written. */
const FIGURES: { id: "accuracy" | "auc" | "brier" | "calibration_error" | "macro_f1" | "mean_distance"; name: string; means: string; write: (value: number) => string }[] = [
  { id: "accuracy", name: "Accuracy", means: "how often the answer is right", write: (value) => percent(value, 1) },
  { id: "auc", name: "AUC", means: "how well yes and no are told apart; 0.5 is chance", write: decimal },
  { id: "macro_f1", name: "Macro F1", means: "right answers, each option counting the same", write: decimal },
  { id: "mean_distance", name: "Mean distance", means: "levels between answer and truth", write: decimal },
  { id: "brier", name: "Brier score", means: "squared error of the probability; 0 is best", write: decimal },
  { id: "calibration_error", name: "Calibration error", means: "how far probabilities are from what comes true", write: (value) => percent(value, 1) },
];

function Figures({ quality }: { quality: Quality }) {
  return (
    <ul className={styles.figures} aria-label="Figures">
      <li className={styles.figure}>
        <span>Labels</span>
        <span className={styles.value}>{count(quality.labels)}</span>
        <span className={styles.means}>{quality.yes === undefined ? "compared with the answer of their time" : `${count(quality.yes)} of them yes`}</span>
      </li>
      {FIGURES.map((figure) => {
        const measured = quality[figure.id] as Figure | undefined;
        return (
          measured && (
            <li key={figure.id} className={styles.figure}>
              <span>{figure.name}</span>
              <span className={styles.value}>{figure.write(measured.value)}</span>
              <span className={styles.means}>{`${figure.write(measured.low)} to ${figure.write(measured.high)}`}</span>
              <span className={styles.means}>{figure.means}</span>
            </li>
          )
        );
      })}
    </ul>
  );
}
