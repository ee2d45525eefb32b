// How an endpoint does: in a list from the newest deliveries, and on its own screen from what the service says.
import { Badge } from "../../parts/Notice";
import { Facts } from "../../parts/Screen";
import { absoluteTime, count, percent, plural } from "../../parts/Values";
import type { Delivery, DeliveryList, WebhookHealth } from "./queries";
import styles from "./Webhooks.module.css";

export interface EndpointHealth {
  delivered: number;
  dead: number;
  /** Waits for another attempt after at least one that failed. */
  retrying: number;
  /** Of how many deliveries this is told, if there are older ones. */
  among?: number;
}

export function healthOf(endpointId: string, { deliveries, next_cursor }: DeliveryList): EndpointHealth {
  const own = deliveries.filter((delivery) => delivery.endpoint_id === endpointId);
  const number = (status: Delivery["status"]) => own.filter((delivery) => delivery.status === status).length;
  return { delivered: number("delivered"), dead: number("dead"), retrying: own.filter((delivery) => delivery.status === "pending" && delivery.attempts > 0).length, among: next_cursor === undefined ? undefined : deliveries.length };
}

export function Health({ health: { delivered, dead, retrying, among } }: { health: EndpointHealth }) {
  const ended = delivered + dead;
  if (ended + retrying === 0) return <span className={styles.soft}>{among === undefined ? "none yet" : `none among the newest ${count(among)} of all endpoints`}</span>;
  const tone = dead > 0 ? "bad" : retrying > 0 ? "warn" : "good";
  return (
    <span className={styles.health}>
      {ended > 0 && <Badge tone={tone}>{`${percent(delivered / ended)} taken`}</Badge>}
      <span className={styles.soft}>{[`${count(delivered)} of ${plural(ended, "delivery", "deliveries")}`, dead > 0 && `${count(dead)} dead`, retrying > 0 && `${count(retrying)} retrying`].filter(Boolean).join(", ")}</span>
    </span>
  );
}

const STATES = {
  good: { tone: "good", name: "good" },
  failing: { tone: "warn", name: "the last attempt failed" },
  resting: { tone: "bad", name: "resting" },
  disabled: { tone: "warn", name: "disabled" },
} as const;

const WAITING_CAP = 10_000;

/** A time in a unit that is easy to read. */
const took = (milliseconds: number) => (milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`);

export function EndpointHealthFacts({ health }: { health: WebhookHealth }) {
  const { tone, name } = STATES[health.state];
  const ended = health.delivered + health.dead;
  const state = health.state === "resting" && health.resting_until ? `resting until ${absoluteTime(health.resting_until)}` : name;
  const failures = health.consecutive_failures > 0 ? `, ${plural(health.consecutive_failures, "failure", "failures")} in a row` : "";
  return (
    <Facts
      items={[
        ["Now", <Badge key="state" tone={tone}>{state + failures}</Badge>],
        ["Waiting", health.waiting >= WAITING_CAP ? `${count(WAITING_CAP)} or more` : count(health.waiting)],
        ["Taken", health.success_share === undefined ? "none yet" : `${percent(health.success_share)} of the last ${plural(ended, "delivery", "deliveries")}`],
        ["Until taken", health.p50_ms === undefined || health.p95_ms === undefined ? "none yet" : `half within ${took(health.p50_ms)}, 95 % within ${took(health.p95_ms)}`],
      ]}
    />
  );
}
