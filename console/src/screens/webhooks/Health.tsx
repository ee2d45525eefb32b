// How an endpoint does, by what the service says: in short in a list, in full on its own screen.
import { Badge } from "../../parts/Notice";
import { Facts } from "../../parts/Screen";
import { absoluteTime, count, percent, plural } from "../../parts/Values";
import type { WebhookHealth } from "./queries";
import styles from "./Webhooks.module.css";

const STATES = {
  good: { tone: "good", name: "good" },
  failing: { tone: "warn", name: "the last attempt failed" },
  resting: { tone: "bad", name: "resting" },
  disabled: { tone: "warn", name: "disabled" },
} as const;

const WAITING_CAP = 10_000;

/** A time in a unit that is easy to read. */
const took = (milliseconds: number) => (milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`);

const stateOf = ({ state, resting_until }: WebhookHealth): string => (state === "resting" && resting_until ? `resting until ${absoluteTime(resting_until)}` : STATES[state].name);

/** The health of an endpoint in one line. */
export function HealthInLine({ health }: { health: WebhookHealth }) {
  const ended = health.delivered + health.dead;
  const figures = [
    ended > 0 && `${count(health.delivered)} of ${plural(ended, "delivery", "deliveries")} taken`,
    health.p50_ms !== undefined && `half within ${took(health.p50_ms)}`,
    health.dead > 0 && `${count(health.dead)} dead`,
    health.waiting > 0 && `${health.waiting >= WAITING_CAP ? `${count(WAITING_CAP)} or more` : count(health.waiting)} waiting`,
  ].filter(Boolean);
  // An endpoint that is switched off says so in the column of its state.
  const isQuiet = figures.length === 0 && health.state === "good";
  return (
    <span className={styles.health}>
      {!isQuiet && health.state !== "disabled" && <Badge tone={STATES[health.state].tone}>{stateOf(health)}</Badge>}
      {health.success_share !== undefined && <Badge tone={health.dead > 0 ? "warn" : "good"}>{`${percent(health.success_share)} taken`}</Badge>}
      <span className={styles.soft}>{isQuiet ? "none yet" : figures.join(", ")}</span>
    </span>
  );
}

export function EndpointHealthFacts({ health }: { health: WebhookHealth }) {
  const { tone } = STATES[health.state];
  const ended = health.delivered + health.dead;
  const state = stateOf(health);
  // One that was never called is neither good nor bad.
  const isUnused = health.state === "good" && ended === 0 && health.waiting === 0 && health.consecutive_failures === 0;
  const failures = health.consecutive_failures > 0 ? `, ${plural(health.consecutive_failures, "failure", "failures")} in a row` : "";
  return (
    <Facts
      items={[
        ["Now", isUnused ? <Badge key="state">nothing sent yet</Badge> : <Badge key="state" tone={tone}>{state + failures}</Badge>],
        ["Waiting", health.waiting >= WAITING_CAP ? `${count(WAITING_CAP)} or more` : count(health.waiting)],
        ["Taken", health.success_share === undefined ? "no delivery yet" : `${percent(health.success_share)} of the last ${plural(ended, "delivery", "deliveries")}`],
        ["Time until taken", health.p50_ms === undefined || health.p95_ms === undefined ? "no delivery yet" : `half within ${took(health.p50_ms)}, 95 % within ${took(health.p95_ms)}`],
      ]}
    />
  );
}
