// Two-factor: set up with a QR code that is made here, confirm with a code, keep the recovery codes; turn off.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { queries } from "../../api/session";
import { Button } from "../../parts/Button";
import { CopyButton } from "../../parts/Code";
import { Dialog } from "../../parts/Dialog";
import { CodeField, PasswordField } from "../../parts/Field";
import { Form, Problem } from "../../parts/Form";
import { Badge, Notice } from "../../parts/Notice";
import { QrCode } from "../../parts/QrCode";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { plural } from "../../parts/Values";
import styles from "./Account.module.css";
import { identitiesQuery, mfaQuery, sessionsQuery } from "./queries";

const changed = async () => {
  await Promise.all([queries.invalidateQueries({ queryKey: mfaQuery.queryKey }), queries.invalidateQueries({ queryKey: sessionsQuery.queryKey })]);
};

export function TwoFactor() {
  const { data: mfa } = useSuspenseQuery(mfaQuery);
  const [setup, setSetup] = useState<Schemas["MfaSetup"]>();
  const [codes, setCodes] = useState<string[]>();
  const [disabling, setDisabling] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const start = async () => {
    setProblem(undefined);
    await take(api.POST("/v1/me/mfa/setup")).then(setSetup, setProblem);
  };
  return (
    <Section
      title="Two-factor"
      about="A code from an app on your phone, in addition to your password."
      actions={mfa.enabled ? <Badge tone="good">on</Badge> : <Badge>off</Badge>}
    >
      {mfa.enabled ? (
        <div className={styles.row}>
          <p>{plural(mfa.recovery_codes_remaining, "recovery code")} left.</p>
          <Button onPress={() => setDisabling(true)}>Turn off…</Button>
        </div>
      ) : (
        <Button kind="primary" onPress={() => void start()}>
          Set up two-factor
        </Button>
      )}
      {problem !== undefined && <Problem problem={problem} />}
      <Dialog title="Set up two-factor" isOpen={setup !== undefined} onClose={() => setSetup(undefined)}>
        {setup && (
          <SetUp
            setup={setup}
            onEnabled={(recovery) => {
              setSetup(undefined);
              setCodes(recovery);
            }}
          />
        )}
      </Dialog>
      <Dialog title="Your recovery codes" isOpen={codes !== undefined} onClose={() => setCodes(undefined)} mustAnswer>
        {codes && <RecoveryCodes codes={codes} onStored={() => setCodes(undefined)} />}
      </Dialog>
      <Dialog title="Turn two-factor off" isOpen={disabling} onClose={() => setDisabling(false)}>
        <TurnOff onDone={() => setDisabling(false)} />
      </Dialog>
    </Section>
  );
}

function SetUp({ setup, onEnabled }: { setup: Schemas["MfaSetup"]; onEnabled: (codes: string[]) => void }) {
  return (
    <Form
      submit="Turn on"
      fields={["code"]}
      fieldOfCode={{ invalid_code: "code" }}
      onSubmit={async ({ code = "" }) => {
        const { recovery_codes } = await take(api.POST("/v1/me/mfa/enable", { body: { code } }));
        await changed();
        onEnabled(recovery_codes);
      }}
    >
      <p>Scan this with your authenticator app, or type the key into it.</p>
      <div className={styles.qr}>
        <QrCode text={setup.otpauth_uri} label="QR code for your authenticator app" />
        <div className={styles.secret}>
          <code>{setup.secret}</code>
          <CopyButton text={setup.secret} what="the key" kind="plain" />
        </div>
      </div>
      <CodeField label="Code from the app" autoFocus />
    </Form>
  );
}

function RecoveryCodes({ codes, onStored }: { codes: string[]; onStored: () => void }) {
  return (
    <>
      <Notice tone="warn">Each of these signs you in once if you lose your phone. They are not shown again.</Notice>
      <ul className={styles.codes} aria-label="Recovery codes">
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ul>
      <div className={styles.row}>
        <CopyButton text={codes.join("\n")} what="the recovery codes" kind="plain" />
        <Button kind="primary" onPress={onStored}>
          I have stored them
        </Button>
      </div>
    </>
  );
}

function TurnOff({ onDone }: { onDone: () => void }) {
  const { data } = useSuspenseQuery(identitiesQuery);
  return (
    <Form
      submit="Turn two-factor off"
      kind="danger"
      fields={["password", "code"]}
      fieldOfCode={{ invalid_password: "password", invalid_code: "code" }}
      onSubmit={async ({ password, code = "" }) => {
        await take(api.POST("/v1/me/mfa/disable", { body: { password, code } }));
        await changed();
        toast("Two-factor is off. All other sessions have ended.");
        onDone();
      }}
    >
      <p>Your password alone signs you in then, and your recovery codes stop working.</p>
      {data.has_password && <PasswordField name="password" label="Password" isRequired autoComplete="current-password" />}
      <CodeField hint="From the app, or a recovery code." />
    </Form>
  );
}
