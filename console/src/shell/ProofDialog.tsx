// Some changes need proof, not older than a quarter of an hour, that it is really the member. This dialog asks for it, and the request
// that needed it is repeated.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../api/client";
import { proofGate, proofRefused } from "../api/gates";
import { askProvider, type Provider, useProviderNames } from "../api/oauth";
import { askForPasskey, hasPasskeys } from "../api/passkeys";
import { useStore } from "../api/store";
import { Button } from "../parts/Button";
import { Dialog } from "../parts/Dialog";
import { CodeField, PasswordField } from "../parts/Field";
import { Form, Problem } from "../parts/Form";
import { Skeleton } from "../parts/States";

type Method = "password" | "code";

export function ProofDialog() {
  const open = useStore(proofGate.open);
  return (
    <Dialog title="Confirm that it is you" isOpen={open} onClose={() => proofGate.refuse(proofRefused())}>
      {open && <Proof />}
    </Dialog>
  );
}

function Proof() {
  const nameOf = useProviderNames();
  const identities = useQuery({ queryKey: ["identities"], queryFn: () => take(api.GET("/v1/me/identities")) });
  const mfa = useQuery({ queryKey: ["mfa"], queryFn: () => take(api.GET("/v1/me/mfa")) });
  const passkeys = useQuery({ queryKey: ["passkeys"], queryFn: async () => (await take(api.GET("/v1/me/passkeys"))).passkeys });
  const [chosen, setChosen] = useState<Method>();
  const [problem, setProblem] = useState<unknown>();
  if (identities.isPending || mfa.isPending || passkeys.isPending) return <Skeleton lines={3} />;

  const methods: Method[] = [...(identities.data?.has_password ? ["password" as const] : []), ...(mfa.data?.enabled ? ["code" as const] : [])];
  // Where a passkey is the second factor, the only codes are those to recover with.
  const hasApp = !mfa.data?.passkey;
  const method = chosen ?? methods[0];
  const other = methods.find((candidate) => candidate !== method);
  const confirm = async (shown: () => Promise<Schemas["ReauthenticateRequest"]>) => {
    setProblem(undefined);
    try {
      await take(api.POST("/auth/console/reauthenticate", { body: await shown() }));
      proofGate.pass();
    } catch (error) {
      setProblem(error);
    }
  };
  const byProvider = (provider: Provider) => confirm(async () => ({ provider, ...(await askProvider(provider)) }));
  const byPasskey = () => confirm(async () => ({ passkey: await askForPasskey() }));
  return (
    <>
      <p>Confirm that it is you before this change is made. You are not asked again for 15 minutes.</p>
      {method && (
        <Form
          submit="Confirm"
          fields={["password", "code"]}
          fieldOfCode={{ invalid_password: "password", invalid_code: "code" }}
          beside={other && <Button kind="quiet" onPress={() => setChosen(other)}>{other === "code" ? `Use ${hasApp ? "a code" : "a recovery code"} instead` : "Use the password instead"}</Button>}
          onSubmit={async (values) => {
            await take(api.POST("/auth/console/reauthenticate", { body: values }));
            proofGate.pass();
          }}
        >
          {method === "password" ? (
            <PasswordField name="password" label="Password" isRequired autoFocus autoComplete="current-password" />
          ) : hasApp ? (
            <CodeField autoFocus hint="From your authenticator app, or a recovery code." />
          ) : (
            <CodeField label="Recovery code" autoFocus />
          )}
        </Form>
      )}
      {hasPasskeys() && passkeys.data !== undefined && passkeys.data.length > 0 && (
        <Button icon="keys" onPress={() => void byPasskey()}>
          Confirm with a passkey
        </Button>
      )}
      {identities.data?.identities.map(({ provider }) => (
        <Button key={provider} onPress={() => void byProvider(provider)}>
          {`Confirm with ${nameOf(provider)}`}
        </Button>
      ))}
      {problem !== undefined && <Problem problem={problem} />}
    </>
  );
}
