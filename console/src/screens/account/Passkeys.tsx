// The member's passkeys: add, rename, remove.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { addPasskey, hasPasskeys } from "../../api/passkeys";
import { queries } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog, Dialog } from "../../parts/Dialog";
import { TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Notice } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { toast } from "../../parts/Toast";
import { Time } from "../../parts/Values";
import styles from "./Account.module.css";
import { passkeysQuery, sessionsQuery } from "./queries";
import { agentName } from "./Sessions";

type Passkey = Schemas["Passkey"];

const changed = async () => {
  await Promise.all([queries.invalidateQueries({ queryKey: passkeysQuery.queryKey }), queries.invalidateQueries({ queryKey: sessionsQuery.queryKey })]);
};

export function Passkeys() {
  const { data: passkeys } = useSuspenseQuery(passkeysQuery);
  const [adding, setAdding] = useState(false);
  const [renamed, setRenamed] = useState<Passkey>();
  const [removed, setRemoved] = useState<Passkey>();
  const isPossible = hasPasskeys();
  const add = isPossible && (
    <Button kind={passkeys.length === 0 ? "primary" : "plain"} icon="plus" onPress={() => setAdding(true)}>
      Add a passkey
    </Button>
  );
  return (
    <Section
      title="Passkeys"
      about="Sign in with a fingerprint, your face or a PIN. A change ends all your other sessions."
      actions={passkeys.length > 0 && add}
    >
      {!isPossible && <Notice>Passkeys need a domain name, TLS and a browser that supports them. At least one of the three is missing here.</Notice>}
      {passkeys.length === 0 ? (
        <Empty icon="keys" title="No passkeys yet" action={add}>
          <p>A passkey stays on your device or in your password manager. Nobody can guess it, and it works on no other site.</p>
        </Empty>
      ) : (
        <ul className={styles.list} aria-label="Passkeys">
          {passkeys.map((passkey) => (
            <PasskeyRow key={passkey.id} passkey={passkey} onRename={() => setRenamed(passkey)} onRemove={() => setRemoved(passkey)} />
          ))}
        </ul>
      )}
      <Dialog title="Add a passkey" isOpen={adding} onClose={() => setAdding(false)}>
        <Add onDone={() => setAdding(false)} />
      </Dialog>
      <Dialog title="Rename the passkey" isOpen={renamed !== undefined} onClose={() => setRenamed(undefined)}>
        {renamed && <Rename passkey={renamed} onDone={() => setRenamed(undefined)} />}
      </Dialog>
      <ConfirmDialog
        title={`Remove ${removed?.name ?? "the passkey"}?`}
        isOpen={removed !== undefined}
        onClose={() => setRemoved(undefined)}
        act="Remove the passkey"
        onConfirm={async () => {
          if (removed) await take(api.DELETE("/v1/me/passkeys/{passkey_id}", { params: { path: { passkey_id: removed.id } } }));
          await changed();
          toast("The passkey is removed. All other sessions have ended.");
        }}
      >
        <p>You cannot sign in with it any more. The device may go on offering it until you delete it there too.</p>
      </ConfirmDialog>
    </Section>
  );
}

function PasskeyRow({ passkey, onRename, onRemove }: { passkey: Passkey; onRename: () => void; onRemove: () => void }) {
  return (
    <li className={styles.row}>
      <div>
        <p className={styles.name}>{passkey.name}</p>
        <p className={styles.soft}>
          added <Time at={passkey.created_at} />, {passkey.last_used_at ? <>last used <Time at={passkey.last_used_at} /></> : "not used yet"}
        </p>
      </div>
      <div className={styles.buttons}>
        <Button aria-label={`Rename ${passkey.name}`} onPress={onRename}>
          Rename…
        </Button>
        <Button aria-label={`Remove ${passkey.name}`} onPress={onRemove}>
          Remove…
        </Button>
      </div>
    </li>
  );
}

const MAX_NAME = 64;

function Add({ onDone }: { onDone: () => void }) {
  return (
    <Form
      submit="Continue"
      fields={["name"]}
      beside={<Button onPress={onDone}>Cancel</Button>}
      onSubmit={async ({ name = "" }) => {
        const added = await addPasskey(name);
        await changed();
        toast(`You can sign in with ${added.name} now. All other sessions have ended.`);
        onDone();
      }}
    >
      <p>Your browser asks next where to keep it: on this device, on your phone, in a password manager or on a security key.</p>
      <TextField name="name" label="Name" isRequired autoFocus maxLength={MAX_NAME} autoComplete="off" defaultValue={agentName(navigator.userAgent)} hint="By which you tell it from others." />
    </Form>
  );
}

function Rename({ passkey, onDone }: { passkey: Passkey; onDone: () => void }) {
  return (
    <Form
      submit="Rename"
      fields={["name"]}
      beside={<Button onPress={onDone}>Cancel</Button>}
      onSubmit={async ({ name = "" }) => {
        await take(api.PATCH("/v1/me/passkeys/{passkey_id}", { params: { path: { passkey_id: passkey.id } }, body: { name } }));
        await queries.invalidateQueries({ queryKey: passkeysQuery.queryKey });
        onDone();
      }}
    >
      <TextField name="name" label="Name" isRequired autoFocus maxLength={MAX_NAME} autoComplete="off" defaultValue={passkey.name} />
    </Form>
  );
}
