// Whether answers get better or worse: accuracy by the week of the label.
import { useMemo } from "react";

import { Chart } from "../../parts/Chart";
import { Section } from "../../parts/Screen";
import { Table } from "../../parts/Table";
import { count, percent } from "../../parts/Values";
import type { Figure, Quality } from "./queries";

const WEEK = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const weekName = (week: string): string => WEEK.format(Date.parse(`${week}T00:00:00Z`));
const written = (figure: Figure | undefined): string => (figure ? `${percent(figure.value)} (${percent(figure.low)} to ${percent(figure.high)})` : "too few labels");

export function ByWeek({ quality }: { quality: Quality }) {
  const weeks = quality.by_week;
  const measured = useMemo(() => weeks.filter((week) => week.accuracy !== undefined), [weeks]);
  const series = useMemo(
    () => [
      {
        name: "Accuracy",
        values: measured.map((week) => week.accuracy?.value ?? null),
        interval: { low: measured.map((week) => week.accuracy?.low ?? null), high: measured.map((week) => week.accuracy?.high ?? null) },
      },
    ],
    [measured],
  );
  return (
    <Section title="By week" about="By the week in which the label was given; weeks begin on Monday, UTC." flush={measured.length < 2}>
      {measured.length >= 2 ? (
        <Chart
          title={`Accuracy of ${quality.signal} by week, with 95 % intervals`}
          xName="Week of (UTC)"
          x={measured.map((week) => Date.parse(`${week.week}T00:00:00Z`) / 1000)}
          time
          series={series}
          format={(value) => percent(value)}
          formatX={(seconds) => WEEK.format(seconds * 1000)}
          yRange={[0, 1]}
        />
      ) : (
        <Table
          label="Quality by week"
          rows={weeks}
          keyOf={(week) => week.week}
          columns={[
            { id: "week", name: "Week of", cell: (week) => weekName(week.week) },
            { id: "labels", name: "Labels", numeric: true, cell: (week) => count(week.labels) },
            { id: "accuracy", name: "Accuracy", cell: (week) => written(week.accuracy) },
          ]}
        />
      )}
    </Section>
  );
}
