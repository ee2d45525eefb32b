// The providers that a member can sign in with.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { askProvider, type Provider, useProviderNames } from "../../api/oauth";
import { queries } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Problem } from "../../parts/Form";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { Time } from "../../parts/Values";
import styles from "./Account.module.css";
import { identitiesQuery } from "./queries";

export function Identities() {
  const { data } = useSuspenseQuery(identitiesQuery);
  const nameOf = useProviderNames();
  const [leaving, setLeaving] = useState<Schemas["Identity"]>();
  const [problem, setProblem] = useState<unknown>();
  const changed = () => queries.invalidateQueries({ queryKey: identitiesQuery.queryKey });
  const unlinked = data.providers.filter((provider) => !data.identities.some((identity) => identity.provider === provider));
  if (data.providers.length === 0 && data.identities.length === 0) return null;

  const link = async (provider: Provider) => {
    setProblem(undefined);
    try {
      await take(api.POST("/v1/me/identities/{provider}", { params: { path: { provider } }, body: await askProvider(provider) }));
      await changed();
      toast(`You can sign in with ${nameOf(provider)} now.`);
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <Section title="Sign-in providers" about="A change ends all your other sessions.">
      <ul className={styles.list}>
        {data.identities.map((identity) => (
          <li key={identity.provider} className={styles.row}>
            <div>
              <p>{nameOf(identity.provider)}</p>
              <p className={styles.soft}>
                {identity.email}, linked <Time at={identity.created_at} />
              </p>
            </div>
            <Button onPress={() => setLeaving(identity)}>Unlink…</Button>
          </li>
        ))}
        {unlinked.map((provider) => (
          <li key={provider} className={styles.row}>
            <p>{nameOf(provider)}</p>
            <Button onPress={() => void link(provider)}>Link</Button>
          </li>
        ))}
      </ul>
      {problem !== undefined && <Problem problem={problem} />}
      <ConfirmDialog
        title={leaving ? `Unlink ${nameOf(leaving.provider)}?` : ""}
        isOpen={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        act="Unlink"
        onConfirm={async () => {
          if (leaving) await take(api.DELETE("/v1/me/identities/{provider}", { params: { path: { provider: leaving.provider } } }));
          await changed();
        }}
      >
        <p>You cannot sign in with it any more, unless you link it again.</p>
      </ConfirmDialog>
    </Section>
  );
}
