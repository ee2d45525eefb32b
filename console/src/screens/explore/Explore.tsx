// Objects by their answers: a condition, a sort, a page after another. The condition and the sort are in the address, so that a view
// can be sent to somebody.
import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, take, type Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { AnswerInline } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { ConditionEditor } from "../../parts/Condition";
import { SelectField } from "../../parts/Field";
import { Link, objectPath } from "../../parts/Link";
import { Screen, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { count, plural, Time } from "../../parts/Values";
import styles from "./Explore.module.css";

type Sort = "recent" | "flagged" | "trust";
type Summary = Schemas["ObjectSummary"];

const PAGE = 100;
const SORTS = [
  { id: "recent", label: "Last seen" },
  { id: "flagged", label: "Highest yes probability" },
  { id: "trust", label: "Highest score" },
];

/** Searches by answers page by offset, the others by cursor. */
interface Page {
  cursor?: string;
  offset?: number;
}

function useObjects(q: string, sort: Sort) {
  return useInfiniteQuery({
    queryKey: ["objects", q, sort],
    queryFn: ({ pageParam, signal }) =>
      take(api.GET("/v1/objects", { params: { query: { q: q || undefined, sort, limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: {} as Page,
    getNextPageParam: (last, pages): Page | undefined => {
      if (last.next_cursor) return { cursor: last.next_cursor };
      return q && last.objects.length === PAGE ? { offset: pages.length * PAGE } : undefined;
    },
  });
}

export default function Explore() {
  const search = useSearch({ strict: false }) as { q?: string; sort?: Sort };
  const navigate = useNavigate();
  const { data: signals } = useSuspenseQuery(signalsQuery);
  const q = search.q ?? "";
  const sort = SORTS.some(({ id }) => id === search.sort) ? (search.sort as Sort) : "recent";
  const [draft, setDraft] = useState(q);
  const show = (next: { q?: string; sort?: string }) => void navigate({ to: "/console/explore" as string, search: { q, sort, ...next } as never });
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
      </Section>
      <Objects q={q} sort={sort} keys={keysOf(signals)} />
    </Screen>
  );
}

/** The signals of the columns, probabilities first: they are what one compares. */
function keysOf(signals: readonly Schemas["Signal"][]): string[] {
  const enabled = signals.filter((signal) => signal.enabled);
  return [...enabled.filter((signal) => signal.type === "noul"), ...enabled.filter((signal) => signal.type !== "noul")].map((signal) => signal.key);
}

function Objects({ q, sort, keys }: { q: string; sort: Sort; keys: string[] }) {
  const navigate = useNavigate();
  const pages = useObjects(q, sort);
  const columns = useMemo(() => columnsOf(keys), [keys.join()]);
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.objects) ?? [], [pages.data]);
  if (pages.isPending) return <Skeleton lines={10} />;
  if (pages.error) return <Failed error={pages.error} retry={() => void pages.refetch()} />;
  return (
    <Section flush>
      <Table
        label="Objects"
        rows={rows}
        keyOf={(row) => row.object_id}
        columns={columns}
        onOpen={(row) => void navigate({ to: objectPath(row.object_id) })}
        empty={
          q ? (
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
      {rows.length > 0 && (
        <LoadMore shown={`${plural(rows.length, "object")} shown`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={() => void pages.fetchNextPage()} />
      )}
    </Section>
  );
}

function columnsOf(keys: string[]): ColumnOf<Summary>[] {
  const shown = keys.slice(0, 5);
  return [
    { id: "object", name: "Object", long: true, width: "2fr", cell: (row) => <Link to={objectPath(row.object_id)}>{row.display_name ?? row.object_id}</Link> },
    { id: "type", name: "Type", optional: true, cell: (row) => row.object_type },
    ...shown.map((key, index): ColumnOf<Summary> => ({ id: `signal ${key}`, name: key, optional: index > 0, width: "1.5fr", cell: (row) => <AnswerTo objectKey={key} row={row} /> })),
    { id: "events", name: "Events", numeric: true, optional: true, cell: (row) => count(row.event_count) },
    { id: "seen", name: "Last seen", cell: (row) => <Time at={row.last_seen} /> },
  ];
}

function AnswerTo({ objectKey, row }: { objectKey: string; row: Summary }) {
  const answer = row.analysis.find((candidate) => candidate.key === objectKey);
  if (!answer) return <span className={styles.none}>{row.pending.includes(objectKey) ? "pending" : "none"}</span>;
  return <AnswerInline answer={answer} label={`${objectKey} of ${row.display_name ?? row.object_id}`} />;
}
