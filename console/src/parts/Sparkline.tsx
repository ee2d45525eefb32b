// A distribution in the height of a line: how many objects have which answer. Hover and screen readers get it in words.
import type { Schemas } from "../api/client";
import styles from "./Sparkline.module.css";
import { count, percent, plural } from "./Values";

type Distribution = Schemas["Distribution"];

const WIDTH = 120;
const HEIGHT = 24;

/** Where most answers lie, in words. */
function summaryOf({ objects, bins, sampled }: Distribution): string {
  if (objects === 0) return "no answers yet";
  const most = bins.reduce((one, other) => (other.count > one.count ? other : one));
  const name = most.option ?? (bins.length === 20 ? `${percent(most.from ?? 0)} to ${percent(most.to ?? 0)}` : `level ${((most.from ?? 0) + (most.to ?? 0)) / 2}`);
  return `${plural(objects, "answer")}${sampled ? " (the newest ones)" : ""}; most at ${name} (${count(most.count)})`;
}

export function Sparkline({ distribution, label }: { distribution: Distribution; label: string }) {
  const { bins, objects } = distribution;
  if (objects === 0) return <span className={styles.none}>no answers yet</span>;
  const highest = Math.max(...bins.map((bin) => bin.count), 1);
  const step = WIDTH / bins.length;
  const gap = bins.length > 10 ? 1 : 3;
  const text = `${label}: ${summaryOf(distribution)}`;
  return (
    <svg className={styles.spark} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={text}>
      <title>{text}</title>
      {bins.map((bin, index) => {
        const height = bin.count === 0 ? 0 : Math.max(2, (bin.count / highest) * (HEIGHT - 2));
        return <rect key={bin.option ?? bin.from} className={styles.fill} x={index * step} y={HEIGHT - 1 - height} width={step - gap} height={height} />;
      })}
      <rect className={styles.ground} y={HEIGHT - 1} width={WIDTH} height="1" />
    </svg>
  );
}
