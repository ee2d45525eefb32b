// Sends a test to an endpoint and says beside the button what came of it.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { Button } from "../../parts/Button";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { endpointPath } from "./endpoint-path";
import { sendTest, testQuery, type Delivery, type Endpoint } from "./queries";
import styles from "./Webhooks.module.css";

export function EndpointTest({ endpoint }: { endpoint: Endpoint }) {
  const [sent, setSent] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const [isPending, setPending] = useState(false);
  const send = async () => {
    setPending(true);
    setProblem(undefined);
    await sendTest(endpoint.id).then(
      (delivery) => setSent(delivery.id),
      (error: unknown) => setProblem(sentenceOf(error)),
    );
    setPending(false);
  };
  return (
    <div className={styles.test}>
      <div>
        <Button isPending={isPending} isDisabled={!endpoint.enabled} onPress={() => void send()}>
          Send a test
        </Button>
      </div>
      <div aria-live="polite">
        {problem && <Notice tone="bad">{problem}</Notice>}
        {sent && !problem && <Outcome key={sent} endpoint={endpoint} deliveryId={sent} />}
      </div>
    </div>
  );
}

function Outcome({ endpoint, deliveryId }: { endpoint: Endpoint; deliveryId: string }) {
  const { data, error } = useQuery(testQuery(endpoint.id, deliveryId));
  const deliveries = <Link to={endpointPath(endpoint.id)}>Its deliveries</Link>;
  const delivery = data?.outcome;
  if (delivery?.status === "delivered") return <Notice tone="good">The endpoint took the test{delivery.last_status_code ? ` (HTTP ${delivery.last_status_code})` : ""}.</Notice>;
  if (delivery)
    return (
      <Notice tone="bad">
        The endpoint did not take the test: {reasonOf(delivery)}. {deliveries}
      </Notice>
    );
  if (error)
    return (
      <Notice tone="bad">
        What came of the test could not be read: {sentenceOf(error)} {deliveries}
      </Notice>
    );
  if (data?.isLastTry) return <Notice tone="warn">No outcome yet. {deliveries}</Notice>;
  return <p>The test is on its way.</p>;
}

const reasonOf = ({ last_status_code, last_error }: Delivery): string => [last_status_code ? `HTTP ${last_status_code}` : "", last_error].filter(Boolean).join(", ") || "no response";
