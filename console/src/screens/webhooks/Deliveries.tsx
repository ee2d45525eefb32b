// Deliveries, newest first, by status. A row opens everything that the service knows of it; dead ones can be replayed.
import { useInfiniteQuery, useQuery, type UseInfiniteQueryResult } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { endpointsQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { SelectField } from "../../parts/Field";
import { ForeignInline, plainForeign } from "../../parts/Foreign";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { toast } from "../../parts/Toast";
import { plural, Time } from "../../parts/Values";
import { DeliveryDialog, DeliveryState } from "./DeliveryDialog";
import { deliveriesQuery, replayAllDead, type Delivery, type Status } from "./queries";
import styles from "./Webhooks.module.css";

const STATUSES = [
  { id: "all", label: "All" },
  { id: "pending", label: "Waiting" },
  { id: "delivering", label: "On its way" },
  { id: "delivered", label: "Delivered" },
  { id: "dead", label: "Dead" },
];

/** Of one endpoint, or of all. The status is in the address. */
export function Deliveries({ endpointId }: { endpointId?: string }) {
  const search = useSearch({ strict: false }) as { status?: string; delivery?: string };
  const navigate = useNavigate();
  const chosen = STATUSES.some(({ id }) => id === search.status) ? (search.status as string) : "all";
  const status = chosen === "all" ? undefined : (chosen as Status);
  const pages = useInfiniteQuery(deliveriesQuery({ status, endpointId }));
  const endpoints = useQuery(endpointsQuery).data ?? [];
  const canWrite = useMay()("webhooks.write");
  const [opened, setOpened] = useState(search.delivery);
  const rows = pages.data?.pages.flatMap((page) => page.deliveries) ?? [];
  useFetchUntil(pages, rows, search.delivery);
  const show = (next: string) => void navigate({ to: "." as string, search: ((before: object) => ({ ...before, status: next === "all" ? "" : next })) as never, replace: true });
  return (
    <Section flush>
      <div className={styles.filter}>
        <div className={styles.select}>
          <SelectField name="status" label="Status" options={STATUSES} value={chosen} onChange={show} />
        </div>
        {canWrite && <ReplayAll endpointId={endpointId} />}
      </div>
      {pages.isPending && <Skeleton lines={8} />}
      {pages.error && <Failed error={pages.error} retry={() => void pages.refetch()} />}
      {pages.data && (
        <Table
          label="Deliveries"
          rows={rows}
          keyOf={(delivery) => delivery.id}
          columns={columnsOf(endpointId === undefined, (id) => endpoints.find((endpoint) => endpoint.id === id)?.url ?? id, setOpened)}
          onOpen={(delivery) => setOpened(delivery.id)}
          empty={
            <Empty icon="webhooks" title={status ? "No deliveries of this status" : "No deliveries yet"}>
              {status ? undefined : "One appears when an analysis ends or a rule fires, for every endpoint that asked for it."}
            </Empty>
          }
        />
      )}
      {rows.length > 0 && (
        <LoadMore shown={`${plural(rows.length, "delivery", "deliveries")} shown, newest first`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={() => void pages.fetchNextPage()} />
      )}
      <DeliveryDialog delivery={rows.find((delivery) => delivery.id === opened)} canWrite={canWrite} onClose={() => setOpened(undefined)} />
    </Section>
  );
}

/** Reads on until the delivery of the address is there. Ids are in the order of time, as the list is, so that it ends where one is gone. */
function useFetchUntil(pages: UseInfiniteQueryResult, rows: readonly Delivery[], wanted: string | undefined): void {
  const oldest = rows.at(-1)?.id;
  const isMissing = wanted !== undefined && oldest !== undefined && oldest > wanted && pages.hasNextPage && !pages.isFetchingNextPage;
  const { fetchNextPage } = pages;
  useEffect(() => {
    if (isMissing) void fetchNextPage();
  }, [isMissing, fetchNextPage]);
  const isGone = wanted !== undefined && rows.length > 0 && !rows.some(({ id }) => id === wanted) && (oldest === undefined || oldest <= wanted || !pages.hasNextPage);
  useEffect(() => {
    if (isGone) toast("That delivery is not kept any more, or is not among these.", { tone: "bad" });
  }, [isGone]);
}

function columnsOf(withEndpoint: boolean, urlOf: (id: string) => string, open: (id: string) => void): ColumnOf<Delivery>[] {
  const columns: ColumnOf<Delivery>[] = [
    {
      id: "event",
      name: "Event",
      cell: (delivery) => <code>{delivery.event_type}</code>,
    },
    { id: "status", name: "Status", cell: (delivery) => <DeliveryState delivery={delivery} /> },
    { id: "object", name: "Object", long: true, optional: true, cell: (delivery) => delivery.object_id && <ForeignInline text={delivery.object_id} length={120} /> },
    { id: "attempts", name: "Attempts", numeric: true, optional: true, cell: (delivery) => `${delivery.attempts} of ${delivery.max_attempts}` },
    { id: "said", name: "Last response", long: true, optional: true, cell: (delivery) => <ForeignInline text={[delivery.last_status_code, delivery.last_error].filter(Boolean).join(", ")} /> },
    { id: "created", name: "Created", cell: (delivery) => <Time at={delivery.created_at} /> },
    {
      id: "open",
      name: "Details",
      cell: (delivery) => (
        <Button kind="quiet" aria-label={`Details of ${delivery.event_type} about ${delivery.object_id === undefined ? "the account" : plainForeign(delivery.object_id)}`} onPress={() => open(delivery.id)}>
          Show
        </Button>
      ),
    },
  ];
  if (withEndpoint) columns.splice(2, 0, { id: "endpoint", name: "Endpoint", long: true, optional: true, cell: (delivery) => urlOf(delivery.endpoint_id) });
  return columns;
}

/** Replays everything that is dead, with the number first. */
function ReplayAll({ endpointId }: { endpointId?: string }) {
  const dead = useInfiniteQuery(deliveriesQuery({ status: "dead", endpointId }));
  const [asking, setAsking] = useState(false);
  const [progress, setProgress] = useState(0);
  const number = dead.data?.pages.flatMap((page) => page.deliveries).length ?? 0;
  if (number === 0) return null;
  const many = `${plural(number, "dead delivery", "dead deliveries")}${dead.hasNextPage ? " and more" : ""}`;
  return (
    <>
      <Button onPress={() => setAsking(true)}>Replay all dead…</Button>
      <ConfirmDialog
        title={`Replay ${many}?`}
        isOpen={asking}
        onClose={() => setAsking(false)}
        act="Replay all"
        onConfirm={async () => {
          setProgress(0);
          const replayed = await replayAllDead(endpointId, setProgress);
          toast(`${plural(replayed, "delivery is", "deliveries are")} on the way again.`);
        }}
      >
        <p>Each is sent again with its id and payload, and has all its attempts again. A receiver that drops ids it has seen is safe.</p>
        <p role="status">{progress > 0 ? `${plural(progress, "delivery", "deliveries")} queued.` : ""}</p>
      </ConfirmDialog>
    </>
  );
}
