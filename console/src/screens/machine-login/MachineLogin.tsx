// Asks whether a machine gets a key, after `auspex login` has opened this page, and carries a code for it to that machine.
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, take } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { useMay, useMe } from "../../api/session";
import { Button } from "../../parts/Button";
import { ForeignInline } from "../../parts/Foreign";
import { Notice } from "../../parts/Notice";
import { Facts, Screen, Section } from "../../parts/Screen";
import { SCOPES } from "../keys/queries";
import styles from "./MachineLogin.module.css";

interface LoginRequest {
  /** Where the machine listens: on loopback, so that nobody else gets the code. */
  redirectUri: string;
  state: string;
  challenge: string;
  name: string;
}

/** What the address asks for; none if it is not what `auspex login` makes. */
function requestIn(search: Record<string, string | undefined>): LoginRequest | undefined {
  const { redirect_uri: redirectUri = "", state = "", challenge = "", name = "" } = search;
  const port = /^http:\/\/(?:127\.0\.0\.1|\[::1\]):(\d{1,5})\/callback$/.exec(redirectUri)?.[1];
  const isComplete = Number(port) >= 1 && Number(port) <= 65535 && /^[\w-]{32,128}$/.test(state) && /^[\w-]{43}$/.test(challenge);
  return isComplete && name.trim() !== "" && name.length <= 100 ? { redirectUri, state, challenge, name } : undefined;
}

export default function MachineLogin() {
  const request = requestIn(useSearch({ strict: false }));
  return (
    <Screen title="Sign in on a machine" narrow>
      {request ? (
        <Consent request={request} />
      ) : (
        <Section title="This address is not complete">
          <Notice tone="bad">Run auspex login again, and open the whole address that it prints.</Notice>
        </Section>
      )}
    </Screen>
  );
}

function Consent({ request }: { request: LoginRequest }) {
  const me = useMe();
  const mayMakeKeys = useMay()("keys.write");
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [isOver, setOver] = useState(false);
  const goBack = (result: Record<string, string>) => {
    location.assign(`${request.redirectUri}?${new URLSearchParams({ ...result, state: request.state })}`);
  };
  const allow = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      const { name, challenge } = request;
      const { code } = await take(api.POST("/v1/me/machine_login", { body: { name, challenge } }));
      goBack({ code });
    } catch (error) {
      setProblem(sentenceOf(error));
      setBusy(false);
    }
  };
  const turnDown = () => {
    // Cookies know no ports: whatever listens there would get this console's session with the request.
    if (location.hostname === new URL(request.redirectUri).hostname) setOver(true);
    else goBack({ error: mayMakeKeys ? "access_denied" : "not_permitted" });
  };
  const refuse = <Button onPress={turnDown}>{mayMakeKeys ? "Refuse" : "Back to the terminal"}</Button>;
  if (isOver)
    return (
      <Section title="The machine got no key">
        <Notice live>You can close this page. The command in the terminal ends by itself after a few minutes.</Notice>
      </Section>
    );
  if (!mayMakeKeys)
    return (
      <Section title="Your role does not include this">
        <div className={styles.consent}>
          <p>Only an admin or an owner may make the API key that a machine signs in with. Ask one of them to make a key for you.</p>
          <p className={styles.choices}>{refuse}</p>
        </div>
      </Section>
    );
  return (
    <Section title="Shall this machine get a key?">
      <div className={styles.consent}>
        <Facts
          items={[
            ["Account", <ForeignInline key="account" text={me.tenant_name} />],
            ["You are", me.email],
            ["Name of the key", <ForeignInline key="name" text={request.name} />],
            ["Check code", <code key="check">{`${request.challenge.slice(0, 4)}-${request.challenge.slice(4, 8)}`}</code>],
          ]}
        />
        <div>
          <p>The key has all scopes. Whoever can use it on that machine may, in this account and without signing in again:</p>
          <ul className={styles.rights}>
            {SCOPES.signed.map(({ id, hint }) => (
              <li key={id}>{hint}</li>
            ))}
          </ul>
        </div>
        <Notice tone="warn">
          Allow this only if you have just run auspex login, and the terminal shows the same check code. Never give anybody the address that the browser shows afterwards. Every member gets a mail about the key. You can revoke it under Keys at any time.
        </Notice>
        {problem && (
          <Notice tone="bad" live>
            {problem}
          </Notice>
        )}
        <p className={styles.choices}>
          <Button kind="primary" isPending={busy} onPress={() => void allow()}>
            Allow
          </Button>
          {refuse}
        </p>
      </div>
    </Section>
  );
}
