// The reliability curve: of the answers around 70 %, are 70 % true?
import { useMemo } from "react";

import { Chart } from "../../parts/Chart";
import { Section } from "../../parts/Screen";
import { percent } from "../../parts/Values";
import type { Quality } from "./queries";

export function Reliability({ quality }: { quality: Quality }) {
  const chart = useMemo(() => {
    const bins = (quality.reliability ?? []).filter((bin) => bin.count > 0 && bin.mean_answer !== undefined && bin.share_yes !== undefined);
    // The diagonal needs its two ends, where no answer may lie.
    const points = [{ x: 0 }, ...bins.map((bin) => ({ x: bin.mean_answer as number, share: bin.share_yes })), { x: 1 }].toSorted((one, other) => one.x - other.x) as {
      x: number;
      share?: { value: number; low: number; high: number };
    }[];
    return {
      x: points.map(({ x }) => x),
      series: [
        {
          name: "Share that is true",
          values: points.map(({ share }) => share?.value ?? null),
          interval: { low: points.map(({ share }) => share?.low ?? null), high: points.map(({ share }) => share?.high ?? null) },
        },
        { name: "Perfectly calibrated", reference: true, values: points.map(({ x }) => x) },
      ],
    };
  }, [quality]);
  return (
    <Section title="Reliability" about="Answers on the dashed line come true as often as they say. The band is the 95 % interval.">
      <Chart
        title={`How often answers to ${quality.signal} come true, by the probability that they gave`}
        xName="Mean answer"
        x={chart.x}
        series={chart.series}
        format={(value) => percent(value)}
        formatX={(value) => percent(value)}
        yRange={[0, 1]}
      />
    </Section>
  );
}
