// The fields of an endpoint, for a new one and for one that is there.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState, type RefObject } from "react";

import type { Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { Checkbox, TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { EVENTS, type Endpoint } from "./queries";
import styles from "./Webhooks.module.css";

interface Props {
  endpoint?: Endpoint;
  submit: string;
  onSave: (body: Schemas["WebhookEndpointCreate"]) => Promise<void>;
  /** For a dialog around the form. */
  changes?: RefObject<(() => boolean) | null>;
}

const wrongUrl = (url: string) => (url.trim() === "" || /^https?:\/\//i.test(url.trim()) ? undefined : "It must start with https:// or http://.");

const FIRST_EVENTS: readonly string[] = ["analysis.completed", "rule.triggered"];

const isSameSet = (one: readonly string[], other: readonly string[]) => one.length === other.length && one.every((item) => other.includes(item));
const toggled = (list: readonly string[], item: string, on: boolean) => (on ? [...list, item] : list.filter((other) => other !== item));

export function EndpointForm({ endpoint, submit, onSave, changes }: Props) {
  const { data: signals } = useSuspenseQuery(signalsQuery);
  const savedEvents = endpoint?.events ?? FIRST_EVENTS;
  const savedKeys = endpoint?.signal_keys ?? [];
  const [events, setEvents] = useState<readonly string[]>(savedEvents);
  const [keys, setKeys] = useState<readonly string[]>(savedKeys);
  const isChanged = !isSameSet(events, savedEvents) || !isSameSet(keys, savedKeys);
  // Keys of signals that do not exist (yet) stay on the list, so that saving does not drop them unseen.
  const known = [...new Set([...signals.map((signal) => signal.key), ...savedKeys])];
  return (
    <Form
      submit={submit}
      fields={["url", "description"]}
      guard={{ isChanged }}
      changes={changes}
      onSubmit={({ url = "", description = "" }) => onSave({ url: url.trim(), description: description.trim(), events: [...events] as Endpoint["events"], signal_keys: [...keys] })}
    >
      <TextField name="url" label="URL" type="url" defaultValue={endpoint?.url} placeholder="https://example.com/hooks/auspex" validate={wrongUrl} isRequired code autoFocus={!endpoint} autoComplete="off" />
      <TextField name="description" label="Description" defaultValue={endpoint?.description} hint="Optional: what receives it." autoComplete="off" />
      <fieldset className={styles.fieldset}>
        <legend>Events</legend>
        {EVENTS.map((event) => (
          <Checkbox key={event.id} isSelected={events.includes(event.id)} hint={event.hint} onChange={(on) => setEvents(toggled(events, event.id, on))}>
            <code>{event.id}</code>
          </Checkbox>
        ))}
      </fieldset>
      <fieldset className={styles.fieldset}>
        <legend>Analyses of these signals</legend>
        <p className={styles.soft}>With none chosen, every analysis.</p>
        {known.map((key) => (
          <Checkbox key={key} isSelected={keys.includes(key)} onChange={(on) => setKeys(toggled(keys, key, on))}>
            <code>{key}</code>
          </Checkbox>
        ))}
      </fieldset>
    </Form>
  );
}
