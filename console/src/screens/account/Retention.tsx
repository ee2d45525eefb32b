// How long the account keeps raw events, with what a shorter time deletes.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { queries } from "../../api/session";
import { ConfirmDialog } from "../../parts/Dialog";
import { ChoiceField, Switch, TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { plural } from "../../parts/Values";
import styles from "./Account.module.css";
import { settingsQuery } from "./queries";

type Retention = Schemas["EventRetention"];

const OPTIONS: { id: Retention; label: string; hint: string }[] = [
  { id: "forever", label: "Forever", hint: "Until the object is deleted." },
  { id: "days", label: "A number of days", hint: "Counted from when the event was received." },
  { id: "after_analysis", label: "Until they were analyzed", hint: "An event goes once an analysis or a verdict has read it." },
];

/** A change that deletes what is there now. */
function deletes(before: Schemas["Settings"], kind: Retention, days: number | null): boolean {
  if (kind === "forever") return false;
  if (before.event_retention === "after_analysis") return false;
  return kind === "after_analysis" || before.event_retention === "forever" || (days ?? 0) < (before.event_retention_days ?? 0);
}

export function Retention() {
  const { data: settings } = useSuspenseQuery(settingsQuery);
  const [kind, setKind] = useState<Retention>(settings.event_retention);
  const [asking, setAsking] = useState<{ days: number | null }>();
  const save = async (body: Schemas["SettingsUpdate"]) => {
    queries.setQueryData(settingsQuery.queryKey, await take(api.PATCH("/v1/settings", { body })));
  };
  const saveAutoBackfill = (on: boolean) =>
    void save({ auto_backfill_signals: on }).catch((error: unknown) => toast(sentenceOf(error), { tone: "bad" }));
  const saveRetention = async (days: number | null) => {
    await save({ event_retention: kind, event_retention_days: kind === "days" ? days : null });
    toast("Saved.");
  };
  const goes = ["raw events that are older than that, now and from then on", "quotes of messages in the summaries of objects"];
  return (
    <Section title="Data of the account" about="For everybody in this account.">
      <div className={styles.stack}>
        <Form
          submit="Save"
          fields={["event_retention", "event_retention_days"]}
          onSubmit={async ({ event_retention_days }) => {
            const days = kind === "days" ? Number(event_retention_days) : null;
            if (deletes(settings, kind, days)) setAsking({ days });
            else await saveRetention(days);
          }}
        >
          <ChoiceField name="event_retention" label="Keep events" options={OPTIONS} value={kind} onChange={(value) => setKind(value as Retention)} />
          {kind === "days" && (
            <TextField name="event_retention_days" label="Days" type="number" inputMode="numeric" defaultValue={String(settings.event_retention_days ?? 90)} hint="From 1 to 3,650." isRequired />
          )}
        </Form>
        <Switch isSelected={settings.auto_backfill_signals} onChange={saveAutoBackfill} hint="A new signal is then asked about every object that is there. That is charged.">
          Ask new signals about existing objects
        </Switch>
      </div>
      <ConfirmDialog
        title={kind === "days" ? `Keep events for ${plural(asking?.days ?? 0, "day")}?` : "Delete events once they were analyzed?"}
        isOpen={asking !== undefined}
        onClose={() => setAsking(undefined)}
        act="Delete and save"
        goes={goes}
        onConfirm={() => saveRetention(asking?.days ?? null)}
      >
        <p>Answers, counts, labels and the ledger stay. Deleted events cannot be brought back, and are not read by later analyses other than as counts.</p>
      </ConfirmDialog>
    </Section>
  );
}
