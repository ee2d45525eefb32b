import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take } from "../../api/client";
import { queries, useMe } from "../../api/session";
import { PasswordField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { identitiesQuery, sessionsQuery } from "./queries";

export function Password() {
  const { data } = useSuspenseQuery(identitiesQuery);
  const me = useMe();
  // A new key empties the fields after a change.
  const [changes, setChanges] = useState(0);
  if (!data.has_password) {
    return (
      <Section title="Password">
        <p>
          You sign in with a provider and have no password. To get one, <Link to="/console/forgot">ask for a reset link</Link> to {me.email}.
        </p>
      </Section>
    );
  }
  return (
    <Section title="Password" about="A change ends all your other sessions.">
      <Form
        key={changes}
        submit="Change the password"
        fields={["current_password", "new_password"]}
        fieldOfCode={{ invalid_password: "current_password", weak_password: "new_password" }}
        onSubmit={async ({ current_password = "", new_password = "" }) => {
          await take(api.POST("/v1/me/password", { body: { current_password, new_password } }));
          setChanges(changes + 1);
          await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey });
          toast("Your password is changed. All other sessions have ended.");
        }}
      >
        <input type="hidden" name="username" autoComplete="username" value={me.email ?? ""} />
        <PasswordField name="current_password" label="Present password" isRequired autoComplete="current-password" />
        <PasswordField name="new_password" label="New password" hint="At least 8 characters, and not easy to guess." isRequired minLength={8} maxLength={256} autoComplete="new-password" />
      </Form>
    </Section>
  );
}
