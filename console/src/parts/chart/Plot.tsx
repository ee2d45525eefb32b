// The canvas of a chart: uPlot, drawn again when the size, the theme or the data change.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import styles from "../Chart.module.css";
import type { ChartProps } from "../Chart";

/** The colour of a custom property as it is now, since a canvas knows no `light-dark()`. */
function colour(element: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** `rgb(1, 2, 3)` at a sixth of its strength. */
const transparent = (solid: string): string => solid.replace(/^rgba?\(([^,]+,[^,]+,[^,)]+).*/, "rgba($1, 0.16)");

/** How far labels of x must be apart, in pixels, so that none covers its neighbour. */
function labelSpace({ x, formatX }: { x: number[]; formatX: (value: number) => string }): number {
  const longest = Math.max(0, ...[x[0], x.at(-1)].map((value) => (value === undefined ? 0 : formatX(value).length)));
  return Math.max(50, longest * 7 + 16);
}

/** How wide labels of y are, in pixels, with the ticks beside them. */
const labelWidth = (labels: string[] | null): number => Math.max(64, Math.max(0, ...(labels ?? []).map((label) => label.length)) * 7 + 16);

/** Bars stand around their value of x: the first and the last need half a step beside it. */
function xRange({ x, series }: ChartProps): uPlot.Range.Function | undefined {
  const steps = x.slice(1).map((value, index) => value - (x[index] ?? value));
  if (steps.length === 0 || !series.some(({ kind }) => kind === "bars")) return undefined;
  const half = Math.min(...steps) / 2;
  return (_, min, max) => [min - half, max + half];
}

const BOUND: uPlot.Series = { class: styles.bound, stroke: "transparent", width: 0, points: { show: false } };

function draw(element: HTMLDivElement, props: ChartProps & { formatX: (value: number) => string }): uPlot {
  const text = colour(element, "--text-soft");
  const grid = { stroke: colour(element, "--line"), width: 1 };
  const bars = uPlot.paths.bars?.({ size: [0.7, 40] });
  const lines = ["--bar", "--warn", "--good", "--bad"];
  const seriesColour = (index: number) => (props.series[index]?.reference ? text : colour(element, lines[index % lines.length] ?? "--bar"));
  const axis = { stroke: text, grid, ticks: grid, font: `12px ${getComputedStyle(element).fontFamily}` };
  const bounded = props.series.flatMap((series, index) => (series.interval ? [{ interval: series.interval, colour: seriesColour(index) }] : []));
  const first = props.series.length + 1;
  return new uPlot(
    {
      width: element.clientWidth,
      height: props.height ?? 220,
      // The axis has the days of UTC, as the service counts them.
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { y: false },
      legend: { show: props.series.length > 1 },
      scales: { x: { time: props.time ?? false, range: xRange(props) }, y: props.yRange ? { range: props.yRange } : {} },
      axes: [
        { ...axis, space: labelSpace(props), values: (_, values) => values.map(props.formatX) },
        { ...axis, size: (_, labels) => labelWidth(labels), values: (_, values) => values.map(props.format) },
      ],
      series: [
        { label: props.xName, value: (_, value) => (value === null ? "" : props.formatX(value)) },
        ...props.series.map((series, index) => {
          const stroke = seriesColour(index);
          const shape: Partial<uPlot.Series> = series.kind === "bars" ? { paths: bars, fill: stroke, width: 0, points: { show: false } } : { width: 2 };
          return {
            label: series.name,
            stroke,
            dash: series.reference ? [4, 4] : undefined,
            value: (_: uPlot, value: number | null) => (value === null ? "" : props.format(value)),
            ...shape,
          };
        }),
        // The bounds are series of their own without a line; the band between each pair is filled.
        ...bounded.flatMap(() => [BOUND, BOUND]),
      ],
      bands: bounded.map((bound, index) => ({ series: [first + 2 * index + 1, first + 2 * index] as [number, number], fill: transparent(bound.colour) })),
    },
    [props.x, ...props.series.map((series) => series.values), ...bounded.flatMap(({ interval }) => [interval.low, interval.high])] as uPlot.AlignedData,
    element,
  );
}

export default function Plot(props: ChartProps & { formatX: (value: number) => string }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    let plot = draw(element, props);
    const again = () => {
      plot.destroy();
      plot = draw(element, props);
    };
    const size = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: props.height ?? 220 }));
    size.observe(element);
    const theme = new MutationObserver(again);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", again);
    return () => {
      size.disconnect();
      theme.disconnect();
      system.removeEventListener("change", again);
      plot.destroy();
    };
  }, [props]);
  return <div ref={frame} className={styles.plot} role="img" aria-label={`${props.title}. The same figures are in the table.`} />;
}
