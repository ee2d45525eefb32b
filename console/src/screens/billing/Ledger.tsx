// Every credit and charge, newest first. A bulk run is one line, which opens.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { SelectField } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { Link, objectPath } from "../../parts/Link";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { count, exactMoneyOfMicros, moneyOfMicros, plural, Time } from "../../parts/Values";
import styles from "./Billing.module.css";
import { ledgerQuery, type LedgerEntry, type LedgerType } from "./queries";

const TYPES = [
  { id: "all", label: "Credits and charges" },
  { id: "credit", label: "Credits" },
  { id: "charge", label: "Charges" },
];

export function Ledger({ currency }: { currency: string }) {
  const [type, setType] = useState<LedgerType>();
  const [batch, setBatch] = useState<LedgerEntry>();
  return (
    <Section title="Ledger" flush>
      <div className={styles.filter}>
        <SelectField name="type" label="Show" options={TYPES} value={type ?? "all"} onChange={(id) => setType(id === "all" ? undefined : (id as LedgerType))} />
      </div>
      <Entries type={type} currency={currency} onBatch={setBatch} />
      <Dialog title="Charges of a bulk run" wide isOpen={batch !== undefined} onClose={() => setBatch(undefined)}>
        {batch?.batch_id && <Entries batchId={batch.batch_id} currency={currency} />}
      </Dialog>
    </Section>
  );
}

interface EntriesProps {
  type?: LedgerType;
  batchId?: string;
  currency: string;
  onBatch?: (entry: LedgerEntry) => void;
}

function Entries({ type, batchId, currency, onBatch }: EntriesProps) {
  const pages = useInfiniteQuery(ledgerQuery(type, batchId));
  const navigate = useNavigate();
  if (pages.isPending) return <Skeleton lines={6} />;
  if (pages.error) return <Failed error={pages.error} retry={() => void pages.refetch()} />;
  const rows = pages.data.pages.flatMap((page) => page.entries);
  return (
    <>
      <Table
        label={batchId ? "Charges of the run" : "Ledger"}
        rows={rows}
        keyOf={(row) => row.id}
        columns={columnsOf(currency, onBatch)}
        onOpen={(row) => (row.batch && onBatch ? onBatch(row) : row.object_id && void navigate({ to: objectPath(row.object_id) }))}
        empty={<Empty icon="billing" title="No entries" />}
      />
      {rows.length > 0 && (
        <LoadMore shown={`${plural(rows.length, "entry", "entries")} shown`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={() => void pages.fetchNextPage()} />
      )}
    </>
  );
}

function columnsOf(currency: string, onBatch: EntriesProps["onBatch"]): ColumnOf<LedgerEntry>[] {
  return [
    { id: "what", name: "What", long: true, width: "2fr", cell: (row) => <What entry={row} onBatch={onBatch} /> },
    { id: "at", name: "When", cell: (row) => <Time at={row.created_at} /> },
    { id: "tokens", name: "Tokens", numeric: true, optional: true, cell: (row) => tokens(row) },
    { id: "amount", name: "Amount", numeric: true, cell: (row) => <span className={row.delta_micros > 0 ? styles.credit : undefined}>{`${row.delta_micros > 0 ? "+" : ""}${moneyOfMicros(row.batch?.delta_micros ?? row.delta_micros, currency)}`}</span> },
    { id: "balance", name: "Balance after", numeric: true, optional: true, cell: (row) => exactMoneyOfMicros(row.balance_after_micros, currency) },
  ];
}

function tokens(entry: LedgerEntry): string {
  const of = entry.batch ?? entry;
  const total = (of.input_tokens ?? 0) + (of.output_tokens ?? 0);
  return total === 0 ? "" : count(total);
}

const words = (reason: string): string => {
  const text = reason.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};

function What({ entry, onBatch }: { entry: LedgerEntry; onBatch: EntriesProps["onBatch"] }) {
  if (entry.batch && onBatch) {
    return (
      <span className={styles.what}>
        {`${words(entry.reason)}, ${plural(entry.batch.count, "analysis", "analyses")}`}
        <Button kind="quiet" onPress={() => onBatch(entry)}>
          Open the run
        </Button>
      </span>
    );
  }
  return (
    <span className={styles.what}>
      {words(entry.reason)}
      {entry.object_id && (
        <Link to={objectPath(entry.object_id)}>
          <ForeignInline text={entry.object_id} length={60} />
        </Link>
      )}
      {entry.model && <span className={styles.soft}>{entry.model}</span>}
      {entry.note && (
        <span className={styles.soft}>
          <ForeignInline text={entry.note} />
        </span>
      )}
    </span>
  );
}
