// Who changed what, newest first, each change with its difference.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { SelectField } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { Link } from "../../parts/Link";
import { Facts, GuardedScreen, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { absoluteTime, plural, Time } from "../../parts/Values";
import styles from "./AuditLog.module.css";
import { ACTIONS, isAction } from "./actions";
import { Difference } from "./Difference";

type AuditEntry = Schemas["AuditEntry"];

const PAGE = 50;
const EVERY = "every";

interface Filter {
  actor?: string;
  action?: AuditEntry["action"];
}

function useEntries(filter: Filter) {
  return useInfiniteQuery({
    queryKey: ["audit", filter.actor, filter.action],
    queryFn: ({ pageParam, signal }) =>
      take(api.GET("/v1/audit_log", { params: { query: { actor: filter.actor || undefined, action: filter.action, limit: PAGE, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor,
  });
}

export default function AuditLog() {
  const may = useMay();
  return (
    <GuardedScreen title="Audit log" about="Sign-ins, and every change of members, keys, signals, rules, webhooks and settings." needs="audit.read">
      {may("audit.read") && <Entries />}
    </GuardedScreen>
  );
}

function Entries() {
  const search = useSearch({ strict: false }) as { actor?: string; action?: string };
  const actor = search.actor;
  const action = isAction(search.action) ? search.action : undefined;
  const navigate = useNavigate();
  const pages = useEntries({ actor, action });
  const [opened, setOpened] = useState<AuditEntry>();
  return (
    <>
      <Section flush>
        <div className={styles.filter}>
          <SelectField
            name="action"
            label="Action"
            options={[{ id: EVERY, label: "Every action" }, ...ACTIONS.map((id) => ({ id, label: id }))]}
            value={action ?? EVERY}
            onChange={(next) => void navigate({ to: "/console/audit-log" as string, search: { actor, action: next === EVERY ? undefined : next } as never })}
          />
          {(actor || action) && <Link to="/console/audit-log">Show everything</Link>}
        </div>
        <Found pages={pages} isFiltered={actor !== undefined || action !== undefined} onOpen={setOpened} />
      </Section>
      <Dialog title={opened?.action ?? "Entry"} wide isOpen={opened !== undefined} onClose={() => setOpened(undefined)}>
        {opened && <Details entry={opened} onClose={() => setOpened(undefined)} />}
      </Dialog>
    </>
  );
}

function Found({ pages, isFiltered, onOpen }: { pages: ReturnType<typeof useEntries>; isFiltered: boolean; onOpen: (entry: AuditEntry) => void }) {
  if (pages.isPending) return <Skeleton lines={10} />;
  if (pages.error) return <Failed error={pages.error} retry={() => void pages.refetch()} />;
  const rows = pages.data.pages.flatMap((page) => page.entries);
  return (
    <>
      <Table label="Audit log" rows={rows} keyOf={(row) => row.id} columns={COLUMNS} onOpen={onOpen} empty={<Empty icon="audit" title={isFiltered ? "Nothing matches" : "Nothing has happened yet"} />} />
      {rows.length > 0 && <LoadMore shown={`${plural(rows.length, "entry", "entries")} shown`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={() => void pages.fetchNextPage()} />}
    </>
  );
}

/** The operator has no id to look for. */
function Actor({ actor }: { actor: AuditEntry["actor"] }) {
  const name = <ForeignInline text={actor.name} length={80} />;
  return actor.id ? <Link to="/console/audit-log" search={{ actor: actor.id }}>{name}</Link> : name;
}

/** What a person knows the target by: its name as the record has it, else its id. */
function targetText({ target, before, after }: AuditEntry): string {
  const record = after ?? before ?? {};
  const name = [record.name, record.email, record.key, record.url].find((value) => typeof value === "string" && value !== "");
  return `${target.kind.replaceAll("_", " ")} ${(name as string | undefined) ?? target.id}`;
}

const COLUMNS: ColumnOf<AuditEntry>[] = [
  { id: "action", name: "Action", cell: (row) => <code>{row.action}</code> },
  { id: "target", name: "What", long: true, cell: (row) => row.target && <ForeignInline text={targetText(row)} length={80} /> },
  { id: "actor", name: "Who", long: true, optional: true, cell: (row) => <Actor actor={row.actor} /> },
  { id: "address", name: "Address", optional: true, cell: (row) => row.address },
  { id: "at", name: "When", cell: (row) => <Time at={row.at} /> },
];

function Details({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  return (
    <div className={styles.details}>
      <Facts
        items={[
          ["When", absoluteTime(entry.at)],
          ["Who", <ForeignInline key="who" text={`${entry.actor.name} (${entry.actor.kind})`} />],
          ["What", entry.target ? <ForeignInline key="what" text={`${entry.target.kind} ${entry.target.id}`} /> : "the account"],
          ["Address", entry.address ?? "unknown"],
          ["Request", <code key="request">{entry.request_id ?? "unknown"}</code>],
        ]}
      />
      <Difference before={entry.before} after={entry.after} />
      <Button onPress={onClose}>Close</Button>
    </div>
  );
}
