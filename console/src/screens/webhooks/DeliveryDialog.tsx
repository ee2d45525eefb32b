// One delivery: how it went, what was sent, and what came back.
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { Button } from "../../parts/Button";
import { CodeBlock } from "../../parts/Code";
import { Dialog } from "../../parts/Dialog";
import { ForeignInline } from "../../parts/Foreign";
import { ObjectLink } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Facts } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { absoluteTime } from "../../parts/Values";
import { replayDelivery, type Delivery } from "./queries";
import styles from "./Webhooks.module.css";

export function DeliveryState({ delivery: { status, attempts } }: { delivery: Delivery }) {
  if (status === "delivered") return <Badge tone="good">delivered</Badge>;
  if (status === "dead") return <Badge tone="bad">dead</Badge>;
  if (status === "delivering") return <Badge tone="info">on its way</Badge>;
  return attempts > 0 ? <Badge tone="warn">retrying</Badge> : <Badge tone="info">waiting</Badge>;
}

/** The headers that do not depend on the moment of an attempt; time and signatures are made anew for each. */
const headersOf = (delivery: Delivery): string =>
  [
    "content-type: application/json",
    `x-webhook-event: ${delivery.event_type}`,
    `x-webhook-delivery: ${delivery.id}`,
    "x-webhook-timestamp: …",
    "x-webhook-signature: sha256=…",
    `webhook-id: ${delivery.id}`,
    "webhook-timestamp: …",
    "webhook-signature: v1,…",
  ].join("\n");

const lastResponseOf = ({ last_status_code, last_error }: Delivery): string =>
  [last_status_code ? `HTTP ${last_status_code}` : "", last_error].filter(Boolean).join(", ") || "none yet";

export function DeliveryDialog({ delivery, canWrite, onClose }: { delivery: Delivery | undefined; canWrite: boolean; onClose: () => void }) {
  return (
    <Dialog title={`Delivery of ${delivery?.event_type ?? ""}`} isOpen={delivery !== undefined} onClose={onClose} wide>
      {delivery && <Details delivery={delivery} canWrite={canWrite} />}
    </Dialog>
  );
}

function Details({ delivery, canWrite }: { delivery: Delivery; canWrite: boolean }) {
  const [pending, setPending] = useState(false);
  const replay = async () => {
    setPending(true);
    await replayDelivery(delivery.id).then(
      () => toast("It is on the way again."),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
    setPending(false);
  };
  const isEnded = delivery.status === "dead" || delivery.status === "delivered";
  return (
    <div className={styles.stack}>
      <Facts
        items={[
          ["Status", <DeliveryState key="status" delivery={delivery} />],
          ["Attempts", `${delivery.attempts} of ${delivery.max_attempts}`],
          ["Created", absoluteTime(delivery.created_at)],
          ...(delivery.delivered_at ? [["Delivered", absoluteTime(delivery.delivered_at)] as [string, string]] : []),
          ...(delivery.status === "pending" ? [["Next attempt", absoluteTime(delivery.run_after)] as [string, string]] : []),
          ...(delivery.object_id ? [["Object", <ObjectLink key="object" id={delivery.object_id} length={255} />] as [string, React.ReactNode]] : []),
          ["Last response", <ForeignInline key="response" text={lastResponseOf(delivery)} length={600} />],
        ]}
      />
      {canWrite && isEnded && (
        <div>
          <Button isPending={pending} onPress={() => void replay()}>
            Replay
          </Button>
        </div>
      )}
      <h3>Request headers</h3>
      <CodeBlock code={headersOf(delivery)} what="the request headers" />
      <p className={styles.soft}>The time and the signatures are made anew for each attempt and are not kept.</p>
      <h3>Payload</h3>
      {delivery.payload === undefined ? <p className={styles.soft}>Not kept any more.</p> : <CodeBlock code={JSON.stringify(delivery.payload, null, 2)} what="the payload" foreign />}
      <h3>Response body</h3>
      {delivery.last_response ? <CodeBlock code={delivery.last_response} what="the response body" foreign /> : <p className={styles.soft}>Empty, or no response yet. The first KiB is kept.</p>}
    </div>
  );
}
