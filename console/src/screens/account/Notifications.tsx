// What the member is mailed about. What concerns the safety of the account cannot be turned off.
import { useSuspenseQuery } from "@tanstack/react-query";

import { api, take } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { queries, useMe } from "../../api/session";
import { Switch } from "../../parts/Field";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import styles from "./Account.module.css";
import { notificationsQuery } from "./queries";

export function Notifications() {
  const { data: preferences } = useSuspenseQuery(notificationsQuery);
  const me = useMe();
  const set = async (event: string, enabled: boolean) => {
    try {
      const updated = await take(api.PUT("/v1/me/notifications", { body: { [event]: enabled } }));
      queries.setQueryData(notificationsQuery.queryKey, updated.preferences);
    } catch (error) {
      toast(sentenceOf(error), { tone: "bad" });
    }
  };
  const critical = preferences.filter((preference) => preference.critical);
  return (
    <Section title="Notifications" about={`Mails to ${me.email}.`}>
      <div className={styles.stack}>
        {preferences
          .filter((preference) => !preference.critical)
          .map((preference) => (
            <Switch key={preference.event} isSelected={preference.enabled} onChange={(enabled) => void set(preference.event, enabled)} hint={preference.description}>
              {preference.label}
            </Switch>
          ))}
        <details className={styles.details}>
          <summary>{critical.length} mails about the safety of your account are always sent</summary>
          <ul className={styles.bullets}>
            {critical.map((preference) => (
              <li key={preference.event}>{preference.label}</li>
            ))}
          </ul>
        </details>
      </div>
    </Section>
  );
}
