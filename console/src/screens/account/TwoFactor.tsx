// Two-factor: an authenticator app, set up with a QR code that is made here, or one of the member's passkeys; the recovery codes; turn off.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { askForPasskey, hasPasskeys } from "../../api/passkeys";
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
import { identitiesQuery, mfaQuery, passkeysQuery, sessionsQuery } from "./queries";

/** A passkey that was shown has a later use, too. */
const changed = async () => {
  await Promise.all([mfaQuery, sessionsQuery, passkeysQuery].map(({ queryKey }) => queries.invalidateQueries({ queryKey })));
};

/** Whether the member has a passkey, and this browser could show it. */
const useHasPasskey = (): boolean => useSuspenseQuery(passkeysQuery).data.length > 0 && hasPasskeys();

/** What is asked for after the password. */
function factorText({ passkey }: Schemas["MfaStatus"], hasPasskey: boolean): string {
  if (passkey) return "After your password, one of your passkeys is asked for.";
  return hasPasskey ? "After your password, a code from your app or one of your passkeys is asked for." : "After your password, a code from your app is asked for.";
}

export function TwoFactor() {
  const { data: mfa } = useSuspenseQuery(mfaQuery);
  const hasPasskey = useHasPasskey();
  const [setup, setSetup] = useState<Schemas["MfaSetup"]>();
  const [open, setOpen] = useState<"passkey" | "off">();
  const [codes, setCodes] = useState<string[]>();
  const [problem, setProblem] = useState<unknown>();
  const close = () => setOpen(undefined);
  const start = async () => {
    setProblem(undefined);
    await take(api.POST("/v1/me/mfa/setup")).then(setSetup, setProblem);
  };
  const enabled = (recovery: string[]) => {
    setSetup(undefined);
    close();
    setCodes(recovery);
  };
  return (
    <Section
      title="Two-factor"
      about="In addition to your password: a code from an app on your phone, or one of your passkeys."
      actions={mfa.enabled ? <Badge tone="good">on</Badge> : <Badge>off</Badge>}
    >
      {mfa.enabled ? (
        <div className={styles.row}>
          <p>
            {factorText(mfa, hasPasskey)} {plural(mfa.recovery_codes_remaining, "recovery code")} left.
          </p>
          <Button onPress={() => setOpen("off")}>Turn off…</Button>
        </div>
      ) : (
        <div className={styles.buttons}>
          <Button kind="primary" onPress={() => void start()}>
            {hasPasskey ? "Set up with an app" : "Set up two-factor"}
          </Button>
          {hasPasskey && <Button onPress={() => setOpen("passkey")}>Set up with a passkey</Button>}
        </div>
      )}
      {problem !== undefined && <Problem problem={problem} />}
      <Dialog title="Set up two-factor" isOpen={setup !== undefined} onClose={() => setSetup(undefined)}>
        {setup && <WithApp setup={setup} onEnabled={enabled} />}
      </Dialog>
      <Dialog title="Set up two-factor" isOpen={open === "passkey"} onClose={close}>
        <WithPasskey onEnabled={enabled} onCancel={close} />
      </Dialog>
      <Dialog title="Your recovery codes" isOpen={codes !== undefined} onClose={() => setCodes(undefined)} mustAnswer>
        {codes && <RecoveryCodes codes={codes} onStored={() => setCodes(undefined)} />}
      </Dialog>
      <Dialog title="Turn two-factor off" isOpen={open === "off"} onClose={close}>
        <TurnOff hasApp={!mfa.passkey} hasPasskey={hasPasskey} onDone={close} />
      </Dialog>
    </Section>
  );
}

async function enable(body: Schemas["MfaEnableRequest"]): Promise<string[]> {
  const { recovery_codes } = await take(api.POST("/v1/me/mfa/enable", { body }));
  await changed();
  return recovery_codes;
}

function WithApp({ setup, onEnabled }: { setup: Schemas["MfaSetup"]; onEnabled: (codes: string[]) => void }) {
  return (
    <Form submit="Turn on" fields={["code"]} fieldOfCode={{ invalid_code: "code" }} onSubmit={async ({ code = "" }) => onEnabled(await enable({ code }))}>
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

function WithPasskey({ onEnabled, onCancel }: { onEnabled: (codes: string[]) => void; onCancel: () => void }) {
  return (
    <Form submit="Turn on with a passkey" beside={<Button onPress={onCancel}>Cancel</Button>} onSubmit={async () => onEnabled(await enable({ passkey: await askForPasskey() }))}>
      <p>Whoever signs in with your password must then show one of your passkeys, too. Your browser asks next for the one to begin with.</p>
      <p className={styles.soft}>While it is on, your last passkey cannot be removed. To change to an app, turn two-factor off first.</p>
    </Form>
  );
}

function RecoveryCodes({ codes, onStored }: { codes: string[]; onStored: () => void }) {
  return (
    <>
      <Notice tone="warn">Each of these stands in once for the code or the passkey, if you lose your phone. They are not shown again.</Notice>
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

interface TurnOffProps {
  /** The second factor is an app, which a passkey of the member may stand in for; else it is a passkey. */
  hasApp: boolean;
  hasPasskey: boolean;
  onDone: () => void;
}

function TurnOff({ hasApp, hasPasskey, onDone }: TurnOffProps) {
  const { data } = useSuspenseQuery(identitiesQuery);
  const [byPasskey, setByPasskey] = useState(hasPasskey && !hasApp);
  const switchText = byPasskey ? `Use ${hasApp ? "a code" : "a recovery code"} instead` : "Use a passkey instead";
  return (
    <Form
      submit="Turn two-factor off"
      kind="danger"
      fields={["password", "code"]}
      fieldOfCode={{ invalid_password: "password", invalid_code: "code" }}
      beside={hasPasskey && <Button kind="quiet" onPress={() => setByPasskey(!byPasskey)}>{switchText}</Button>}
      onSubmit={async ({ password, code }) => {
        const shown = byPasskey ? { passkey: await askForPasskey() } : { code };
        await take(api.POST("/v1/me/mfa/disable", { body: { password, ...shown } }));
        await changed();
        toast("Two-factor is off. All other sessions have ended.");
        onDone();
      }}
    >
      <p>Your password alone signs you in then, and your recovery codes stop working.</p>
      {data.has_password && <PasswordField name="password" label="Password" isRequired autoFocus autoComplete="current-password" />}
      {byPasskey ? <p>Your browser asks for one of your passkeys next.</p> : hasApp ? <CodeField hint="From the app, or a recovery code." /> : <CodeField label="Recovery code" />}
    </Form>
  );
}
