// Precision and recall over thresholds, and the threshold that costs least.
import { useMemo, useState } from "react";

import type { Schemas } from "../../api/client";
import { Chart } from "../../parts/Chart";
import { TextField } from "../../parts/Field";
import { Link } from "../../parts/Link";
import { typedNumber } from "../../parts/number";
import { Section } from "../../parts/Screen";
import { percent } from "../../parts/Values";
import type { Figure, Quality } from "./queries";
import styles from "./Quality.module.css";

interface Props {
  quality: Quality;
  signal: Schemas["Signal"];
  costs: { costFalseYes: number; costFalseNo: number };
  onCosts: (costs: Record<string, string>) => void;
}

const seriesOf = (name: string, figures: (Figure | undefined)[]) => ({
  name,
  values: figures.map((figure) => figure?.value ?? null),
  interval: { low: figures.map((figure) => figure?.low ?? null), high: figures.map((figure) => figure?.high ?? null) },
});

export function Thresholds({ quality, signal, costs, onCosts }: Props) {
  const chart = useMemo(() => {
    const thresholds = quality.thresholds ?? [];
    return {
      x: thresholds.map(({ threshold }) => threshold),
      series: [
        seriesOf("Precision", thresholds.map(({ precision }) => precision)),
        seriesOf("Recall", thresholds.map(({ recall }) => recall)),
        { name: "Flagged", reference: true, values: thresholds.map(({ flagged }) => flagged.value) },
      ],
    };
  }, [quality]);
  return (
    <Section title="Thresholds" about="Precision: of what is flagged, how much is true. Recall: of what is true, how much is flagged.">
      <div className={styles.thresholds}>
        <Chart
          title={`Precision and recall of ${quality.signal} by threshold, with 95 % intervals`}
          xName="Threshold"
          x={chart.x}
          series={chart.series}
          format={(value) => percent(value)}
          formatX={(value) => value.toFixed(2)}
          yRange={[0, 1]}
          height={260}
        />
        <Costs quality={quality} signal={signal} costs={costs} onCosts={onCosts} />
      </div>
    </Section>
  );
}

function Costs({ quality, signal, costs, onCosts }: Props) {
  const [falseYes, setFalseYes] = useState(String(costs.costFalseYes));
  const [falseNo, setFalseNo] = useState(String(costs.costFalseNo));
  const best = quality.thresholds?.find(({ threshold }) => threshold === quality.best_threshold);
  const change = (yes: string, no: string) => {
    setFalseYes(yes);
    setFalseNo(no);
    const [costYes, costNo] = [typedNumber(yes), typedNumber(no)];
    if (costYes > 0 && costNo > 0 && Number.isFinite(costYes + costNo)) onCosts({ false_yes: String(costYes), false_no: String(costNo) });
  };
  return (
    <div className={styles.costs}>
      <h3>The threshold that costs least</h3>
      <TextField name="false_yes" label="Cost of a false alarm" hint="Any unit; only the ratio counts." inputMode="decimal" value={falseYes} onChange={(yes) => change(yes, falseNo)} />
      <TextField name="false_no" label="Cost of a miss" inputMode="decimal" value={falseNo} onChange={(no) => change(falseYes, no)} />
      {best && (
        <>
          <p className={styles.best} role="status">
            <code>{`${signal.key} >= ${best.threshold}`}</code>
          </p>
          <dl className={styles.pairs}>
            <Pair name="Precision" figure={best.precision} />
            <Pair name="Recall" figure={best.recall} />
            <Pair name="Flagged" figure={best.flagged} />
          </dl>
          <Link to="/console/explore" search={{ q: `${signal.key} >= ${best.threshold}` }} kind="plain" icon="explore">
            Objects it flags now
          </Link>
        </>
      )}
    </div>
  );
}

function Pair({ name, figure }: { name: string; figure: Figure | undefined }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {figure ? percent(figure.value) : "nothing to measure"} {figure && <span className={styles.means}>{`${percent(figure.low)} to ${percent(figure.high)}`}</span>}
      </dd>
    </div>
  );
}
