// Puts an object into a queue for a person to look at.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { queuesQuery } from "../../api/reviews";
import { queries } from "../../api/session";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { Checkbox, TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { toast } from "../../parts/Toast";
import styles from "./Object.module.css";

interface Props {
  objectId: string;
  signals: readonly Schemas["Signal"][];
  isOpen: boolean;
  onClose: () => void;
}

export function OpenReview({ objectId, signals, isOpen, onClose }: Props) {
  const queues = useQuery({ ...queuesQuery, enabled: isOpen }).data ?? [];
  const [queue, setQueue] = useState("manual");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const open = async () => {
    await take(api.POST("/v1/reviews", { body: { object_id: objectId, queue, ...(chosen.size > 0 && { signals: [...chosen] }) } }));
    toast(`It waits for a person in the queue ${queue}.`);
    await queries.invalidateQueries({ queryKey: ["object", objectId] });
    await queries.invalidateQueries({ queryKey: ["reviews"] });
    onClose();
  };
  const toggle = (key: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(key);
    else next.delete(key);
    setChosen(next);
  };
  return (
    <Dialog title="Open a review" isOpen={isOpen} onClose={onClose}>
      <Form submit="Open the review" fields={["queue"]} beside={<Button onPress={onClose}>Cancel</Button>} onSubmit={open}>
        <TextField
          name="queue"
          label="Queue"
          hint={queues.length > 0 ? `There are ${queues.map((each) => each.queue).join(", ")}. A new name makes a new queue.` : "Any name; the queue is made with it."}
          value={queue}
          onChange={setQueue}
          maxLength={64}
          isRequired
          autoFocus
        />
        <fieldset className={styles.fieldset}>
          <legend>Signals to label (without a choice: all that are switched on)</legend>
          {signals.map((signal) => (
            <Checkbox key={signal.key} isSelected={chosen.has(signal.key)} onChange={(on) => toggle(signal.key, on)}>
              {signal.key}
            </Checkbox>
          ))}
        </fieldset>
      </Form>
    </Dialog>
  );
}
