// A chart with the same figures as a table. uPlot is loaded when the first chart is shown.
import { lazy, Suspense, useState } from "react";

import { Button } from "./Button";
import styles from "./Chart.module.css";
import { Skeleton } from "./States";

export interface Series {
  name: string;
  /** Where no series has a value, the table has no row. */
  values: (number | null)[];
  kind?: "line" | "bars";
  /** Drawn dashed and in grey: for comparison. */
  reference?: boolean;
  /** The bounds of an interval around each value, drawn as a band. */
  interval?: { low: (number | null)[]; high: (number | null)[] };
}

export interface ChartProps {
  /** What the chart shows, in one sentence: its name for screen readers and the caption of the table. */
  title: string;
  /** Seconds since 1970 with `time`, else any number. */
  x: number[];
  /** The unit or meaning of x, also the first column of the table. */
  xName: string;
  series: Series[];
  time?: boolean;
  height?: number;
  /** Writes a value of y with its unit. */
  format: (value: number) => string;
  formatX?: (value: number) => string;
  yRange?: [number, number];
}

/** The interval of a value in brackets, as the table shows it. */
function bounds(series: Series, index: number, format: (value: number) => string): string {
  const low = series.interval?.low[index];
  const high = series.interval?.high[index];
  return typeof low === "number" && typeof high === "number" ? ` (${format(low)} to ${format(high)})` : "";
}

const Plot = lazy(() => import("./chart/Plot"));

export function Chart(props: ChartProps) {
  const [asTable, setAsTable] = useState(false);
  const formatX = props.formatX ?? ((value: number) => (props.time ? new Date(value * 1000).toLocaleDateString("en-GB") : String(value)));
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>
        <span>{props.title}</span>
        <Button kind="quiet" onPress={() => setAsTable(!asTable)}>
          {asTable ? "Show as chart" : "Show as table"}
        </Button>
      </figcaption>
      {asTable ? (
        <div className={styles.scroll} tabIndex={0} role="region" aria-label={props.title}>
          <table>
            <thead>
              <tr>
                <th scope="col">{props.xName}</th>
                {props.series.map((series) => (
                  <th key={series.name} scope="col">
                    {series.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {props.x.map((x, index) =>
                props.series.some(({ values }) => typeof values[index] === "number") ? (
                  <tr key={x}>
                    <th scope="row">{formatX(x)}</th>
                    {props.series.map((series) => {
                      const value = series.values[index];
                      return <td key={series.name}>{value === null || value === undefined ? "" : `${props.format(value)}${bounds(series, index, props.format)}`}</td>;
                    })}
                  </tr>
                ) : null,
              )}
            </tbody>
          </table>
        </div>
      ) : (
        <Suspense fallback={<Skeleton lines={5} label="Loading the chart" />}>
          <Plot {...props} formatX={formatX} />
        </Suspense>
      )}
    </figure>
  );
}
