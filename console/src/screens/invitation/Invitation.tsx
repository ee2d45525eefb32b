import { useNavigate, useSearch } from "@tanstack/react-router";

import { api, take } from "../../api/client";
import { signedIn } from "../../api/session";
import { PasswordField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Notice } from "../../parts/Notice";
import { ThresholdPage } from "../../shell/ThresholdPage";
import { ProviderButtons } from "../sign-in/ProviderButtons";

export default function Invitation() {
  const { token } = useSearch({ strict: false }) as { token?: string };
  const navigate = useNavigate();
  const enter = () => void navigate({ to: "/console/overview" as string });
  return (
    <ThresholdPage title="Join the account" about="You were invited. Choose a password, and you are in.">
      {token ? (
        <>
          <Form
            submit="Join"
            wide
            fields={["password"]}
            fieldOfCode={{ weak_password: "password" }}
            onSubmit={async ({ password = "" }) => {
              await take(api.POST("/auth/console/invitations/accept", { body: { token, password } }));
              await signedIn();
              enter();
            }}
          >
            <PasswordField name="password" label="Password" hint="At least 8 characters, and not easy to guess." isRequired minLength={8} maxLength={256} autoFocus autoComplete="new-password" />
          </Form>
          <ProviderButtons invitation={token} onSignedIn={enter} />
        </>
      ) : (
        <Notice tone="bad">This link is not complete. Open it from the mail again.</Notice>
      )}
    </ThresholdPage>
  );
}
