// The fields of each action.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { Checkbox, SelectField, TextField } from "../../parts/Field";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import type { ActionType } from "./queries";
import styles from "./Rules.module.css";

interface Props {
  type: ActionType;
  config: Schemas["ActionConfig"];
  endpoints: readonly Schemas["WebhookEndpoint"][];
  signals: readonly Schemas["Signal"][];
  /** The signals that a reviewer labels; none means those of the condition. */
  reviewed: readonly string[];
  onReviewed: (signals: string[]) => void;
}

export function ActionFields({ type, config, endpoints, signals, reviewed, onReviewed }: Props) {
  if (type === "email") {
    return (
      <>
        <TextField name="to" label="To" type="email" defaultValue={config.to} isRequired autoComplete="off" />
        <TextField name="subject" label="Subject" defaultValue={config.subject} hint="Optional; otherwise the rule’s name." />
      </>
    );
  }
  if (type === "slack") return <TextField name="webhook_url" label="Incoming webhook URL" type="url" defaultValue={config.webhook_url} placeholder="https://hooks.slack.com/services/…" isRequired code />;
  if (type === "webhook") return <EndpointField endpoints={endpoints} chosen={config.endpoint_id} />;
  return <ReviewFields config={config} signals={signals} reviewed={reviewed} onReviewed={onReviewed} />;
}

function EndpointField({ endpoints, chosen }: { endpoints: Props["endpoints"]; chosen: string | undefined }) {
  const [selected, setSelected] = useState(chosen);
  const endpoint = endpoints.find(({ id }) => id === selected) ?? endpoints[0];
  if (endpoints.length === 0) {
    return (
      <Notice tone="warn">
        There is no endpoint yet. <Link to="/console/webhooks">Create one first.</Link>
      </Notice>
    );
  }
  const options = endpoints.map((endpoint) => ({ id: endpoint.id, label: endpoint.url, hint: [endpoint.description, endpoint.enabled ? "" : "disabled"].filter(Boolean).join(", ") }));
  return <SelectField name="endpoint_id" label="Endpoint" options={options} value={endpoint?.id} onChange={setSelected} isRequired />;
}

function ReviewFields({ config, signals, reviewed, onReviewed }: Pick<Props, "config" | "signals" | "reviewed" | "onReviewed">) {
  const queues = useQuery({ queryKey: ["queues"], queryFn: async () => (await take(api.GET("/v1/reviews/queues"))).queues });
  const known = queues.data?.map((queue) => queue.queue).join(", ");
  const toggle = (key: string, on: boolean) => onReviewed(on ? [...reviewed, key] : reviewed.filter((other) => other !== key));
  return (
    <>
      <TextField name="queue" label="Queue" defaultValue={config.queue ?? "review"} hint={known ? `A queue exists once something is in it. There are: ${known}.` : "A queue exists once something is in it."} maxLength={64} isRequired autoComplete="off" />
      <fieldset className={styles.fieldset}>
        <legend>Signals to label</legend>
        <p className={styles.soft}>With none chosen, those of the condition.</p>
        {signals.map((signal) => (
          <Checkbox key={signal.key} isSelected={reviewed.includes(signal.key)} onChange={(on) => toggle(signal.key, on)}>
            <code>{signal.key}</code>
          </Checkbox>
        ))}
      </fieldset>
    </>
  );
}
