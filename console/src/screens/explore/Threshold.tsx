// How the answers to one signal are distributed among the objects that match the rest of the condition, with a threshold that can be
// dragged or moved by arrow keys. What it is set to goes into the condition.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Label } from "react-aria-components/Label";
import { Slider, SliderOutput, SliderThumb, SliderTrack } from "react-aria-components/Slider";

import { api, take, type Schemas } from "../../api/client";
import { SelectField } from "../../parts/Field";
import { count, plural } from "../../parts/Values";
import styles from "./Threshold.module.css";
import { besideThreshold, thresholdIn, withThreshold } from "./condition-threshold";

type Signal = Schemas["Signal"];
type Bin = Schemas["DistributionBin"];

const distributionQuery = (key: string, q: string) =>
  queryOptions({
    queryKey: ["distribution", key, q],
    queryFn: ({ signal }) => take(api.GET("/v1/signals/{key}/distribution", { params: { path: { key }, query: { q: q || undefined } }, signal })),
    staleTime: 60_000,
    // The bars stay until the next are there, so that nothing jumps.
    placeholderData: (previous) => previous,
  });

interface Props {
  signals: readonly Signal[];
  /** As it is typed. */
  condition: string;
  /** As it was last looked for. */
  q: string;
  onChange: (condition: string) => void;
}

export function Threshold({ signals, condition, q, onChange }: Props) {
  const measured = signals.filter((signal) => signal.enabled && signal.type !== "choice");
  const [chosen, setChosen] = useState<string>();
  const named = measured.find((signal) => thresholdIn(condition, signal.key));
  const signal = measured.find(({ key }) => key === chosen) ?? named ?? measured[0];
  if (!signal) return null;
  return (
    <div className={styles.threshold}>
      <SelectField name="threshold-signal" label="Threshold of" options={measured.map(({ key }) => ({ id: key, label: key }))} value={signal.key} onChange={setChosen} />
      <Histogram key={signal.key} signal={signal} condition={condition} q={q} onChange={onChange} />
    </div>
  );
}

function Histogram({ signal, condition, q, onChange }: Omit<Props, "signals"> & { signal: Signal }) {
  const rest = besideThreshold(q, signal.key);
  const { data } = useQuery(distributionQuery(signal.key, rest));
  const levels = Array.isArray(signal.criteria) ? signal.criteria.length : 3;
  const most = signal.type === "noul" ? 1 : levels - 1;
  const step = signal.type === "noul" ? 0.01 : 0.1;
  const set = thresholdIn(condition, signal.key);
  // A probability above 1 is a percentage.
  const placed = set && signal.type === "noul" && set.value > 1 ? set.value / 100 : set?.value;
  const [value, setValue] = useState(placed ?? most / 2);
  useEffect(() => {
    if (placed !== undefined) setValue(Math.min(most, placed));
  }, [placed, most]);
  const isBelow = set?.operator.startsWith("<") ?? false;
  const bins = data?.bins ?? [];
  const passes = (bin: Bin) => (isBelow ? (bin.to ?? 0) <= value : (bin.from ?? 0) >= value);
  const passing = bins.reduce((sum, bin) => sum + (passes(bin) ? bin.count : 0), 0);
  return (
    <Slider className={styles.slider} minValue={0} maxValue={most} step={step} value={value} onChange={(next) => setValue(Number(next))} onChangeEnd={(next) => onChange(withThreshold(condition, signal.key, Number(next)))}>
      <div className={styles.head}>
        <Label>{`${signal.key} ${set?.operator ?? ">"}`}</Label>
        <SliderOutput className={styles.value}>{value.toFixed(signal.type === "noul" ? 2 : 1)}</SliderOutput>
        <span className={styles.passing}>
          {data && passingText(data, passing, rest)}
        </span>
      </div>
      <SliderTrack className={styles.track}>
        <Bars bins={bins} most={most} passes={passes} />
        <SliderThumb className={styles.thumb} />
      </SliderTrack>
    </Slider>
  );
}

function passingText({ objects, sampled }: Schemas["Distribution"], passing: number, rest: string): string {
  if (objects === 0) return rest === "" ? "no answers yet" : "no object matches the rest of the condition";
  const matching = rest === "" ? "" : ` that ${objects === 1 ? "matches" : "match"} the rest of the condition`;
  return `about ${count(passing)} of ${sampled ? "the newest " : ""}${plural(objects, "object")}${matching}`;
}

/** The bars stand where their range lies on the track. */
function Bars({ bins, most, passes }: { bins: readonly Bin[]; most: number; passes: (bin: Bin) => boolean }) {
  const highest = Math.max(1, ...bins.map((bin) => bin.count));
  return (
    <svg className={styles.bars} viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
      {bins.map((bin) => {
        const from = (100 * Math.max(0, bin.from ?? 0)) / most;
        const to = (100 * Math.min(most, bin.to ?? 0)) / most;
        const height = bin.count === 0 ? 0 : Math.max(1, (40 * bin.count) / highest);
        return <rect key={bin.from} x={from} width={Math.max(0.2, to - from - 0.4)} y={40 - height} height={height} className={passes(bin) ? styles.passes : styles.fails} />;
      })}
    </svg>
  );
}
