// Objects by their answers: a condition, a threshold to drag, a sort, saved views, and what can be done to many at once. The condition
// and the sort are in the address, so that a view can be sent to somebody.
import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { memo, useEffect, useMemo, useState } from "react";

import { ApiError, type Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { AnswerInline } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { ConditionEditor, useConditionCheck } from "../../parts/Condition";
import { SelectField } from "../../parts/Field";
import { ForeignInline, plainForeign } from "../../parts/Foreign";
import { Link, ObjectLink, objectPath } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { count, plural, Time } from "../../parts/Values";
import { Bulk } from "./Bulk";
import styles from "./Explore.module.css";
import { objectsQuery, SORTS, type Sort, type Summary } from "./objects";
import { Threshold } from "./Threshold";
import { Views } from "./Views";

export default function Explore() {
  const search = useSearch({ strict: false }) as { q?: string; sort?: Sort };
  const navigate = useNavigate();
  const { data: signals } = useSuspenseQuery(signalsQuery);
  const q = search.q ?? "";
  const sort = SORTS.some(({ id }) => id === search.sort) ? (search.sort as Sort) : "recent";
  const mayWriteRules = useMay()("rules.write");
  const [draft, setDraft] = useState(q);
  // A view that was chosen, or the way back, brings its own condition.
  useEffect(() => setDraft(q), [q]);
  const show = (next: { q?: string; sort?: string }) => void navigate({ to: "/console/explore" as string, search: { q, sort, ...next } as never });
  const showThreshold = (condition: string) => {
    setDraft(condition);
    show({ q: condition });
  };
  return (
    <Screen title="Explore" about="Find objects by their answers, or by a part of their id or name.">
      <Section>
        <div className={styles.bar}>
          <ConditionEditor label="Condition" value={draft} onChange={setDraft} signals={signals} use="query" onEnter={() => show({ q: draft })} />
          <SelectField name="sort" label="Sort by" options={SORTS} value={sort} onChange={(value) => show({ sort: value })} />
          <Button kind="primary" icon="explore" onPress={() => show({ q: draft })}>
            Find
          </Button>
        </div>
        <Threshold signals={signals} condition={draft} q={q} onChange={showThreshold} />
        <div className={styles.keep}>
          <Views q={q} sort={sort} />
          {mayWriteRules && <MakeRule q={q} />}
        </div>
      </Section>
      <Objects q={q} sort={sort} signals={signals} />
    </Screen>
  );
}

/** A rule needs a condition: a text that is looked for in ids and names is none. */
function MakeRule({ q }: { q: string }) {
  const check = useConditionCheck(q, "query");
  if (!q || check.isPlaceholderData || !check.data?.matches) return null;
  return (
    <Link to="/console/rules/new-rule" search={{ when: q }}>
      Make a rule of this condition
    </Link>
  );
}

/** In place of the list where a part of the condition is not understood. */
function NotUnderstood() {
  return (
    <Section>
      <Empty icon="explore" title="Nothing was searched: the condition is not understood">
        <p>What is wrong is said below the condition. To look for a part of an id or a name, write it alone.</p>
      </Empty>
    </Section>
  );
}

/** The signals of the columns, probabilities first: they are what one compares. */
function keysOf(signals: readonly Schemas["Signal"][]): string[] {
  const enabled = signals.filter((signal) => signal.enabled);
  return [...enabled.filter((signal) => signal.type === "noul"), ...enabled.filter((signal) => signal.type !== "noul")].map((signal) => signal.key);
}

/** The table of objects. It renders again only when the query, the order or the signals change, not while somebody types. */
const Objects = memo(function Objects({ q, sort, signals }: { q: string; sort: Sort; signals: readonly Schemas["Signal"][] }) {
  const navigate = useNavigate();
  const may = useMay();
  const pages = useInfiniteQuery(objectsQuery(q, sort));
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => setSelected(new Set()), [q, sort]);
  const columns = useMemo(() => columnsOf(keysOf(signals)), [signals]);
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.objects) ?? [], [pages.data]);
  if (pages.isPending) return <Skeleton lines={10} />;
  if (pages.error instanceof ApiError && pages.error.field === "q") return <NotUnderstood />;
  if (pages.error) return <Failed error={pages.error} retry={() => void pages.refetch()} />;
  const warnings = [...new Set(pages.data.pages.flatMap((page) => page.warnings))];
  const more = () => {
    if (pages.hasNextPage && !pages.isFetchingNextPage) void pages.fetchNextPage();
  };
  return (
    <Section flush>
      {warnings.length > 0 && (
        <div className={styles.warnings}>
          <Notice tone="warn">Not everything was looked for: {warnings.join("; ")}.</Notice>
        </div>
      )}
      {rows.length > 0 && <Bulk q={q} sort={sort} signals={signals} selected={selected} onSelect={setSelected} isSearching={pages.isPlaceholderData} />}
      <Table
        label="Objects"
        rows={rows}
        keyOf={(row) => row.object_id}
        columns={columns}
        onOpen={(row) => void navigate({ to: objectPath(row.object_id) })}
        selected={selected}
        onSelect={may("labels.write") || may("reviews.write") ? setSelected : undefined}
        onNearEnd={more}
        hasMore={pages.hasNextPage}
        virtual
        empty={
          q && pages.hasNextPage ? (
            <Empty icon="explore" title="None of the objects looked at so far matches" action={<Button isPending={pages.isFetchingNextPage} onPress={more}>Go on searching</Button>}>
              One search looks at so many objects and no more.
            </Empty>
          ) : q ? (
            <Empty icon="explore" title="No object matches">
              Objects without an answer to a signal match no comparison with it.
            </Empty>
          ) : (
            <Empty icon="start" title="No objects yet" action={<Link to="/console/first-steps" kind="primary">First steps</Link>}>
              An object appears with its first event.
            </Empty>
          )
        }
      />
      {rows.length > 0 && <LoadMore shown={pages.isPlaceholderData ? "Searching…" : `${plural(rows.length, "object")} shown`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={more} />}
    </Section>
  );
});

/** Of "12 minutes ago". */
const SEEN_WIDTH = 136;

function columnsOf(keys: string[]): ColumnOf<Summary>[] {
  const shown = keys.slice(0, 5);
  return [
    { id: "object", name: "Object", long: true, width: "2fr", cell: (row) => <ObjectLink id={row.object_id} name={row.display_name} /> },
    { id: "type", name: "Type", optional: true, cell: (row) => <ForeignInline text={row.object_type} length={40} /> },
    ...shown.map((key, index): ColumnOf<Summary> => ({ id: `signal ${key}`, name: key, optional: index > 0, width: "1.5fr", cell: (row) => <AnswerTo objectKey={key} row={row} /> })),
    { id: "events", name: "Events", numeric: true, optional: true, cell: (row) => count(row.event_count) },
    { id: "seen", name: "Last seen", optional: true, width: SEEN_WIDTH, cell: (row) => <Time at={row.last_seen} /> },
  ];
}

function AnswerTo({ objectKey, row }: { objectKey: string; row: Summary }) {
  const answer = row.analysis.find((candidate) => candidate.key === objectKey);
  if (!answer) return <span className={styles.none}>{row.pending.includes(objectKey) ? "pending" : "none"}</span>;
  return <AnswerInline answer={answer} label={`${objectKey} of ${plainForeign(row.display_name ?? row.object_id)}`} />;
}
