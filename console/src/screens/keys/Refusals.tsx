// Requests with the account's keys that were refused, newest first, each with its reason and what to do.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { ForeignInline } from "../../parts/Foreign";
import { Link } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { Facts, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { Table, type ColumnOf } from "../../parts/Table";
import { absoluteTime, count, plural, Time } from "../../parts/Values";
import styles from "./Keys.module.css";
import { CAUSES, refusalsQuery, type Refusal } from "./refusal-causes";

const REFRESH_MS = 15_000;

export function Refusals() {
  const refusals = useQuery({ ...refusalsQuery, refetchInterval: REFRESH_MS });
  const [opened, setOpened] = useState<Refusal>();
  return (
    <Section flush title="Refused requests" about="Why requests that named one of your keys were refused within the last 7 days. Their responses say only 401.">
      {refusals.isPending ? (
        <Skeleton lines={3} />
      ) : refusals.error ? (
        <Failed error={refusals.error} retry={() => void refusals.refetch()} />
      ) : (
        <Table
          label="Refused requests"
          rows={refusals.data}
          keyOf={(row) => `${row.key_id} ${row.cause} ${row.at}`}
          columns={COLUMNS}
          onOpen={setOpened}
          empty={<Empty icon="good" title="None was refused" />}
        />
      )}
      <Dialog title={opened ? CAUSES[opened.cause].what : "Refused request"} isOpen={opened !== undefined} onClose={() => setOpened(undefined)}>
        {opened && <Details refusal={opened} />}
        <Button onPress={() => setOpened(undefined)}>Close</Button>
      </Dialog>
    </Section>
  );
}

const COLUMNS: ColumnOf<Refusal>[] = [
  { id: "cause", name: "Why", cell: (row) => <span className={styles.name}>{CAUSES[row.cause].what}</span>, sort: (row) => CAUSES[row.cause].what },
  { id: "key", name: "Key", long: true, cell: (row) => <ForeignInline text={row.name} length={60} />, sort: (row) => row.name },
  { id: "count", name: "Requests", numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
  { id: "address", name: "From", optional: true, cell: (row) => row.address ?? "unknown" },
  { id: "at", name: "Last", cell: (row) => <Time at={row.at} />, sort: (row) => row.at },
];

function Details({ refusal }: { refusal: Refusal }) {
  return (
    <>
      <p>{CAUSES[refusal.cause].advice}</p>
      <Facts
        items={[
          ["What was sent", refusal.detail ? <ForeignInline key="detail" text={refusal.detail} length={600} /> : "not told: the signature is not right, or nothing else is known"],
          ["Key", <ForeignInline key="key" text={`${refusal.name} (${refusal.key})`} length={200} />],
          ["Requests", `${count(refusal.count)} within a minute`],
          ["Last", absoluteTime(refusal.at)],
          ["From", refusal.address ?? "unknown"],
          ["Request", <code key="request">{refusal.request_id ?? "unknown"}</code>],
        ]}
      />
    </>
  );
}

/** The newest refusal in a sentence, for who waits for a first event. */
export function NewestRefusal({ refusal }: { refusal: Refusal }) {
  const { what, advice } = CAUSES[refusal.cause];
  return (
    <Notice tone="warn" action={<Link to="/console/keys">All refused requests</Link>}>
      <strong>{plural(refusal.count, "request was", "requests were")} refused</strong> <Time at={refusal.at} />: {what.charAt(0).toLowerCase() + what.slice(1)}. {advice}
      {refusal.detail && (
        <span className={styles.detail}>
          <ForeignInline text={refusal.detail} length={300} />
        </span>
      )}
    </Notice>
  );
}
