// How an endpoint does, told from its newest deliveries.
import { Badge } from "../../parts/Notice";
import { count, percent, plural } from "../../parts/Values";
import type { Delivery } from "./queries";
import styles from "./Webhooks.module.css";

export interface EndpointHealth {
  delivered: number;
  dead: number;
  /** Waits for another attempt after at least one that failed. */
  retrying: number;
}

export function healthOf(endpointId: string, deliveries: readonly Delivery[]): EndpointHealth {
  const own = deliveries.filter((delivery) => delivery.endpoint_id === endpointId);
  const number = (status: Delivery["status"]) => own.filter((delivery) => delivery.status === status).length;
  return { delivered: number("delivered"), dead: number("dead"), retrying: own.filter((delivery) => delivery.status === "pending" && delivery.attempts > 0).length };
}

export function Health({ health: { delivered, dead, retrying } }: { health: EndpointHealth }) {
  const ended = delivered + dead;
  if (ended + retrying === 0) return <span className={styles.soft}>none yet</span>;
  const tone = dead > 0 ? "bad" : retrying > 0 ? "warn" : "good";
  return (
    <span className={styles.health}>
      {ended > 0 && <Badge tone={tone}>{`${percent(delivered / ended)} taken`}</Badge>}
      <span className={styles.soft}>{[`${count(delivered)} of ${plural(ended, "delivery", "deliveries")}`, dead > 0 && `${count(dead)} dead`, retrying > 0 && `${count(retrying)} retrying`].filter(Boolean).join(", ")}</span>
    </span>
  );
}
