// API keys: make, rename, turn off, rotate, revoke. A secret is shown once, right after it was made.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { CopyButton, SecretOnce } from "../../parts/Code";
import { ConfirmDialog, Dialog } from "../../parts/Dialog";
import { Checkbox, ChoiceField, TextField } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { Form } from "../../parts/Form";
import { ActionMenu, type MenuAction } from "../../parts/Menu";
import { Badge } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Table, type ColumnOf } from "../../parts/Table";
import { toast } from "../../parts/Toast";
import { Time } from "../../parts/Values";
import styles from "./Keys.module.css";
import { Refusals } from "./Refusals";
import { createKey, keysQuery, KINDS, revokeKey, rotateKey, SCOPES, updateKey, type ApiKey, type KeySecret, type Kind, type Scope } from "./queries";

type Open = { what: "create" } | { what: "rename" | "rotate" | "revoke"; key: ApiKey };

export default function Keys() {
  const { data: keys } = useSuspenseQuery(keysQuery);
  const may = useMay();
  const canWrite = may("keys.write");
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const create = (
    <Button kind="primary" icon="plus" onPress={() => setOpen({ what: "create" })}>
      Create a key
    </Button>
  );
  return (
    <Screen title="Keys" about="A key lets your programs in. It can do what the API can do; only members can manage members and money." actions={canWrite && create}>
      <Section flush>
        <Table
          label="API keys"
          rows={keys}
          keyOf={(key) => key.id}
          columns={columnsOf(canWrite, setOpen)}
          empty={
            <Empty icon="keys" title="No keys yet" action={canWrite && create}>
              Your program needs one to send events and to read answers.
            </Empty>
          }
        />
      </Section>
      {may("refusals.read") && <Refusals />}
      <KeyDialogs open={open} close={close} />
    </Screen>
  );
}

function columnsOf(canWrite: boolean, setOpen: (open: Open) => void): ColumnOf<ApiKey>[] {
  const columns: ColumnOf<ApiKey>[] = [
    { id: "name", name: "Name", long: true, cell: (key) => <span className={styles.name}><ForeignInline text={key.name} /></span>, sort: (key) => key.name },
    {
      id: "key",
      name: "Key",
      cell: (key) => (
        <span className={styles.key}>
          <code>{key.key}</code>
          <CopyButton text={key.key} what={`the id of ${key.name}`} />
        </span>
      ),
    },
    { id: "scopes", name: "May", optional: true, cell: rightsOf, sort: rightsOf },
    { id: "status", name: "Status", cell: (key) => <StatusOf apiKey={key} />, sort: (key) => key.status },
    { id: "used", name: "Last used", cell: (key) => (key.last_used_at ? <Time at={key.last_used_at} /> : "never"), sort: (key) => key.last_used_at ?? "" },
    { id: "created", name: "Created", cell: (key) => <Time at={key.created_at} />, sort: (key) => key.created_at, optional: true },
  ];
  if (canWrite) columns.push({ id: "actions", name: "Actions", numeric: true, cell: (key) => <KeyActions apiKey={key} setOpen={setOpen} /> });
  return columns;
}

function StatusOf({ apiKey }: { apiKey: ApiKey }) {
  if (apiKey.status === "active") return <Badge tone="good">active</Badge>;
  return apiKey.status === "inactive" ? <Badge tone="warn">inactive</Badge> : <Badge>revoked</Badge>;
}

function KeyActions({ apiKey, setOpen }: { apiKey: ApiKey; setOpen: (open: Open) => void }) {
  if (apiKey.status === "revoked") return null;
  const toggle = async () => {
    const status = apiKey.status === "active" ? "inactive" : "active";
    await updateKey(apiKey.id, { status }).then(
      () => toast(status === "active" ? `${apiKey.name} works again.` : `${apiKey.name} is refused from now on.`),
      (error: unknown) => toast(sentenceOf(error), { tone: "bad" }),
    );
  };
  const actions: MenuAction[] = [
    { id: "rename", name: "Rename…", run: () => setOpen({ what: "rename", key: apiKey }) },
    { id: "toggle", name: apiKey.status === "active" ? "Turn off" : "Turn on", run: () => void toggle() },
    { id: "rotate", name: "Rotate the secret…", run: () => setOpen({ what: "rotate", key: apiKey }) },
    { id: "revoke", name: "Revoke…", danger: true, run: () => setOpen({ what: "revoke", key: apiKey }) },
  ];
  return <ActionMenu label={`Actions for ${apiKey.name}`} actions={actions} />;
}

/** What is chosen at first: of a signed key everything, of a bearer key nothing, since it is kept in more places. */
const chosenFirst: Record<Kind, readonly Scope[]> = { signed: SCOPES.signed.map(({ id }) => id), bearer: [] };

function CreateForm({ onCreated }: { onCreated: (created: KeySecret) => void }) {
  const [kind, setKind] = useState<Kind>("signed");
  const [chosen, setChosen] = useState(chosenFirst);
  const offered = SCOPES[kind].filter(({ beside }) => !beside || chosen[kind].includes(beside));
  const scopes = offered.map(({ id }) => id).filter((id) => chosen[kind].includes(id));
  const toggle = (id: Scope, on: boolean) => setChosen({ ...chosen, [kind]: on ? [...scopes, id] : scopes.filter((scope) => scope !== id) });
  const isEverything = kind === "signed" && scopes.length === SCOPES.signed.length;
  return (
    <Form
      submit="Create the key"
      fields={["name"]}
      isDisabled={scopes.length === 0}
      onSubmit={async ({ name = "" }) => onCreated(await createKey(name, kind, isEverything ? undefined : scopes))}
    >
      <TextField name="name" label="Name" placeholder="API key" hint="What it is for, so that you know which one to revoke later." maxLength={100} autoFocus autoComplete="off" />
      <ChoiceField name="kind" label="Kind" options={[...KINDS]} value={kind} onChange={(next) => setKind(next as Kind)} />
      <fieldset className={styles.scopes}>
        <legend>It may</legend>
        {offered.map(({ id, hint }) => (
          <Checkbox key={`${kind} ${id}`} isSelected={scopes.includes(id)} onChange={(on) => toggle(id, on)} hint={hint}>
            {id}
          </Checkbox>
        ))}
      </fieldset>
    </Form>
  );
}

/** What a key may do, in a word or a few. */
function rightsOf({ kind, scopes = [] }: ApiKey): string {
  if (kind === "bearer") return `${scopes.join(", ")} (bearer)`;
  return SCOPES.signed.every(({ id }) => scopes.includes(id)) ? "everything" : scopes.join(", ");
}

function KeyDialogs({ open, close }: { open: Open | undefined; close: () => void }) {
  const [made, setMade] = useState<KeySecret>();
  return (
    <>
      <Dialog title="Create a key" isOpen={open?.what === "create"} onClose={close}>
        <CreateForm
          onCreated={(created) => {
            setMade(created);
            close();
          }}
        />
      </Dialog>
      <Dialog title="Your new secret" isOpen={made !== undefined} onClose={() => setMade(undefined)}>
        {made && (
          <SecretOnce
            note={made.api_key.kind === "bearer" ? "Store the secret now: it is not shown again. Requests carry it as Authorization: Bearer, over https only." : "Store the secret now: it is not shown again."}
            items={[
              { name: "Key", value: made.key },
              { name: "Secret", value: made.secret },
            ]}
          />
        )}
        <Button kind="primary" onPress={() => setMade(undefined)}>
          I have stored it
        </Button>
      </Dialog>
      <Dialog title="Rename the key" isOpen={open?.what === "rename"} onClose={close}>
        {open?.what === "rename" && (
          <Form
            submit="Rename"
            fields={["name"]}
            onSubmit={async ({ name = "" }) => {
              await updateKey(open.key.id, { name });
              close();
            }}
          >
            <TextField name="name" label="Name" defaultValue={open.key.name} isRequired maxLength={100} autoFocus autoComplete="off" />
          </Form>
        )}
      </Dialog>
      <ConfirmDialog
        title={open?.what === "rotate" ? `Rotate the secret of ${open.key.name}?` : ""}
        isOpen={open?.what === "rotate"}
        onClose={close}
        act="Rotate"
        onConfirm={async () => {
          if (open?.what === "rotate") setMade(await rotateKey(open.key.id));
        }}
      >
        <p>The present secret stops working at once. Programs that use it are refused until they have the new one.</p>
      </ConfirmDialog>
      <ConfirmDialog
        title={open?.what === "revoke" ? `Revoke ${open.key.name}?` : ""}
        isOpen={open?.what === "revoke"}
        onClose={close}
        act="Revoke"
        onConfirm={async () => {
          if (open?.what === "revoke") await revokeKey(open.key.id);
          toast("The key is revoked.");
        }}
      >
        <p>Programs that use it are refused from now on. A revoked key cannot be brought back.</p>
      </ConfirmDialog>
    </>
  );
}
