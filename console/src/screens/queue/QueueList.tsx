// The reviews of one queue as a list: who has which, and what was decided.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { api, take } from "../../api/client";
import type { Review } from "../../api/reviews";
import { useMay } from "../../api/session";
import { SelectField } from "../../parts/Field";
import { Link, ObjectLink, objectPath } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { plural, Time } from "../../parts/Values";
import { HowReviewsComeAbout } from "./HowReviewsComeAbout";
import styles from "./Queue.module.css";

type Status = Review["status"];

const STATUSES = [
  { id: "open", label: "Waiting" },
  { id: "claimed", label: "Claimed" },
  { id: "resolved", label: "Resolved" },
];
const ORDERS = [
  { id: "value", label: "Worth most first" },
  { id: "oldest", label: "Oldest first" },
];
const REASONS: Record<Review["reason"], string> = { rule: "rule", audit: "drawn at random", person: "person" };
const PAGE = 50;
/** Others work on the queue too: the list follows them. */
const REFRESH_MS = 10_000;

function useReviews(queue: string, status: Status, order: "value" | "oldest") {
  return useInfiniteQuery({
    queryKey: ["reviews", "list", queue, status, order],
    queryFn: ({ pageParam, signal }) => take(api.GET("/v1/reviews", { params: { query: { queue, status, order, limit: PAGE, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: REFRESH_MS,
  });
}

export function QueueList({ queue }: { queue: string }) {
  const search = useSearch({ strict: false }) as { status?: string; order?: string };
  const navigate = useNavigate();
  const may = useMay();
  const status = (STATUSES.some(({ id }) => id === search.status) ? search.status : "open") as Status;
  const order = search.order === "oldest" ? "oldest" : "value";
  const show = (next: Record<string, string>) => void navigate({ to: "/console/queue" as string, search: { queue, view: "list", status, order, ...next } as never });
  const pages = useReviews(queue, status, order);
  const rows = pages.data?.pages.flatMap((page) => page.reviews) ?? [];
  const open = (row: Review) =>
    void navigate(row.status !== "resolved" && may("reviews.write") ? { to: "/console/queue" as string, search: { queue, review: row.id } as never } : { to: objectPath(row.object_id) });
  return (
    <Screen
      title={`Queue ${queue}`}
      about={<Link to="/console/queue">All queues</Link>}
      actions={may("reviews.write") && <Link to="/console/queue" search={{ queue }} kind="primary">Work through it</Link>}
    >
      <Section flush>
        <div className={styles.filters}>
          <SelectField name="status" label="Show" options={STATUSES} value={status} onChange={(value) => show({ status: value })} />
          <SelectField name="order" label="Order" options={ORDERS} value={order} onChange={(value) => show({ order: value })} />
        </div>
        {pages.isPending ? (
          <Skeleton lines={8} />
        ) : pages.error ? (
          <Failed error={pages.error} retry={() => void pages.refetch()} />
        ) : (
          <>
            <Table
              label="Reviews"
              rows={rows}
              keyOf={(row) => row.id}
              columns={COLUMNS}
              onOpen={open}
              empty={status === "open" ? <HowReviewsComeAbout title="Nothing waits in this queue" /> : <Empty icon="queue" title={status === "claimed" ? "Nobody works on this queue now" : "Nothing was resolved yet"} />}
            />
            {rows.length > 0 && (
              <LoadMore shown={`${plural(rows.length, "review")} shown`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={() => void pages.fetchNextPage()} />
            )}
          </>
        )}
      </Section>
    </Screen>
  );
}

const COLUMNS: ColumnOf<Review>[] = [
  { id: "object", name: "Object", long: true, width: "2fr", cell: (row) => <ObjectLink id={row.object_id} /> },
  { id: "reason", name: "Opened by", optional: true, cell: (row) => REASONS[row.reason] },
  { id: "signals", name: "To be labelled", optional: true, long: true, cell: (row) => row.signals.join(", ") },
  { id: "priority", name: "Worth", numeric: true, optional: true, cell: (row) => row.priority.toFixed(2) },
  { id: "state", name: "State", cell: (row) => <State review={row} /> },
  { id: "at", name: "Opened", cell: (row) => <Time at={row.created_at} /> },
];

function State({ review }: { review: Review }) {
  if (review.status === "open") return <Badge>waiting</Badge>;
  const by = review.status === "claimed" ? review.claimed_by : review.resolved_by;
  return (
    <span className={styles.state}>
      {review.status === "claimed" ? <Badge tone="info">claimed</Badge> : <Badge tone="good">{review.decision ?? "resolved"}</Badge>}{" "}
      {by && <span className={styles.soft}>{by.name}</span>}
    </span>
  );
}
