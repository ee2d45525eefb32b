// Email and password, then a code or a passkey where two-factor is on. Used by the sign-in page and by the dialog of a session that ended.
import { useRef, useState } from "react";

import { api, take } from "../../api/client";
import { ApiError } from "../../api/error";
import { askForPasskey, hasPasskeys } from "../../api/passkeys";
import { signedIn } from "../../api/session";
import { Button } from "../../parts/Button";
import { CodeField, PasswordField, TextField } from "../../parts/Field";
import { Form, Problem } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";

interface Props {
  /** Whose session ended; it can be changed on the page only. */
  email?: string;
  onSignedIn?: () => void;
}

export function SignInForm({ email, onSignedIn }: Props) {
  const [needsCode, setNeedsCode] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const [wrong, setWrong] = useState(false);
  const credentials = useRef({ email: email ?? "", password: "" });

  const submit = async (values: Record<string, string>) => {
    if (!needsCode) credentials.current = { email: email ?? values.email ?? "", password: values.password ?? "" };
    setWrong(false);
    try {
      await take(api.POST("/auth/console/login", { body: { ...credentials.current, code: needsCode ? values.code : undefined } }));
    } catch (error) {
      // The service does not say which of the two it is, and neither does the page.
      if (error instanceof ApiError && error.code === "unauthorized") {
        if (needsCode) throw new Error("That code is not right, or has been used. Wait for the next one.");
        setWrong(true);
        return;
      }
      if (!(error instanceof ApiError) || error.code !== "mfa_required") throw error;
      setNeedsCode(true);
      return;
    }
    await signedIn();
    onSignedIn?.();
  };

  const byPasskey = async () => {
    setProblem(undefined);
    try {
      await take(api.POST("/auth/console/login", { body: { ...credentials.current, passkey: await askForPasskey() } }));
      await signedIn();
      onSignedIn?.();
    } catch (error) {
      setProblem(error);
    }
  };

  // The service does not say which factor it is to somebody who has shown the password alone.
  const canShowPasskey = hasPasskeys();
  return (
    <Form key={needsCode ? "code" : "password"} submit="Sign in" wide onSubmit={submit} fields={["email", "password", "code"]}>
      {needsCode ? (
        <>
          <Notice>
            Two-factor is on for {credentials.current.email}. {canShowPasskey ? "Show a code, or one of your passkeys." : "If it is one of your passkeys, which do not work on this page, use a recovery code."}
          </Notice>
          <CodeField autoFocus hint="From your authenticator app, or one of your recovery codes." />
          {problem !== undefined && <Problem problem={problem} />}
          {canShowPasskey && (
            <Button icon="keys" onPress={() => void byPasskey()}>
              Use a passkey instead
            </Button>
          )}
          <Button kind="quiet" onPress={() => setNeedsCode(false)}>
            Back
          </Button>
        </>
      ) : (
        <>
          {email === undefined ? (
            <TextField name="email" label="Email" type="email" isRequired autoFocus autoComplete="username webauthn" />
          ) : (
            <p>
              Signing in as <strong>{email}</strong>
            </p>
          )}
          <PasswordField name="password" label="Password" isRequired autoFocus={email !== undefined} autoComplete="current-password" />
          {wrong && (
            <Notice tone="bad" live>
              {email === undefined ? (
                <>
                  The address or the password is not right. If you do not know it, <Link to="/console/forgot">choose a new one</Link>.
                </>
              ) : (
                "The password is not right."
              )}
            </Notice>
          )}
        </>
      )}
    </Form>
  );
}
