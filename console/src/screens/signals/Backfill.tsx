// Asks the signal about objects that are there and have no answer to it: what it would cost first, then how far it is.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Notice } from "../../parts/Notice";
import { Facts, Section } from "../../parts/Screen";
import { Failed, Skeleton } from "../../parts/States";
import { toast } from "../../parts/Toast";
import { count, moneyOfMicros, percent, plural, Time } from "../../parts/Values";
import { backfillQuery, startBackfill, type Signal } from "./queries";
import styles from "./Signals.module.css";

export function Backfill({ signal }: { signal: Signal }) {
  const status = useQuery(backfillQuery(signal.key));
  const may = useMay();
  const [asking, setAsking] = useState(false);
  if (status.isPending) return <Skeleton lines={4} />;
  if (status.error) return <Failed error={status.error} retry={() => void status.refetch()} />;
  const { estimate, backfill } = status.data;
  const isRunning = backfill?.status === "running";
  const price = estimate.estimated_cost_micros > 0 ? `about ${moneyOfMicros(estimate.estimated_cost_micros)}` : "no estimate: nothing was charged yet";
  return (
    <Section title="Backfill" about="Asks this signal about the objects that have no answer to it. It runs behind live work and can be started again at any time.">
      <div className={styles.stack}>
        <Facts
          items={[
            ["Objects without an answer", count(estimate.objects)],
            ["Price", estimate.objects === 0 ? "nothing to ask" : price],
          ]}
        />
        {!signal.enabled && <Notice tone="warn">A disabled signal is not asked. Enable it first.</Notice>}
        {backfill && (
          <div>
            <p>
              {isRunning ? "Running" : "Finished"}: {count(backfill.completed)} of {plural(backfill.total, "object")} ({percent(backfill.total === 0 ? 1 : backfill.completed / backfill.total)}), started <Time at={backfill.started_at} />.
            </p>
            <progress className={styles.progress} aria-label="Progress of the backfill" max={Math.max(backfill.total, 1)} value={backfill.total === 0 ? 1 : backfill.completed} />
          </div>
        )}
        {may("signals.write") && (
          <div>
            <Button kind="primary" isDisabled={isRunning || estimate.objects === 0 || !signal.enabled} onPress={() => setAsking(true)}>
              Start a backfill…
            </Button>
          </div>
        )}
      </div>
      <ConfirmDialog
        title={`Ask ${signal.key} about ${plural(estimate.objects, "object")}?`}
        isOpen={asking}
        onClose={() => setAsking(false)}
        act="Start the backfill"
        onConfirm={async () => {
          await startBackfill(signal.key);
          toast("The backfill has started.");
        }}
      >
        <p>Price: {price}. It is charged as it goes, by what is read.</p>
      </ConfirmDialog>
    </Section>
  );
}
