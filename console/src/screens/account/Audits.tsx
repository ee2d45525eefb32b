// Which share of the analyzed objects people review although no rule asks for it, and in which queue.
import { useSuspenseQuery } from "@tanstack/react-query";

import { api, take } from "../../api/client";
import { queries } from "../../api/session";
import { TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { typedNumberIn } from "../../parts/number";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { settingsQuery } from "./queries";

const MOST_PCT = 10;

export function Audits() {
  const { data: settings } = useSuspenseQuery(settingsQuery);
  return (
    <div>
      <Section title="Reviews at random" about="For everybody in this account. Labels of objects that were drawn at random show what the answers miss; labels of flagged objects cannot.">
        <Form
          submit="Save the reviews at random"
          fields={["audit_rate_pct", "audit_queue"]}
          onSubmit={async ({ audit_rate_pct = "", audit_queue = "" }) => {
            const body = { audit_rate_pct: typedNumberIn(audit_rate_pct, "the share", 0, MOST_PCT), audit_queue };
            queries.setQueryData(settingsQuery.queryKey, await take(api.PATCH("/v1/settings", { body })));
            toast("Saved.");
          }}
        >
          <TextField name="audit_rate_pct" label="Share of analyzed objects, in percent" inputMode="decimal" defaultValue={String(settings.audit_rate_pct)} hint="From 0, which draws none, to 10. Each object is drawn at most once in 30 days." isRequired />
          <TextField name="audit_queue" label="Queue of these reviews" defaultValue={settings.audit_queue} maxLength={64} isRequired />
        </Form>
      </Section>
    </div>
  );
}
