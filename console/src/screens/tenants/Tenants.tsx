// The accounts of the install, oldest first: who has how much, and what is being deleted. For operators.
import { infiniteQueryOptions, useInfiniteQuery } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { CopyButton } from "../../parts/Code";
import { ForeignInline } from "../../parts/Foreign";
import { Badge } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Empty, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { bytes, count, moneyOfCents, plural, Time } from "../../parts/Values";
import { OperatorFailure } from "../health/OperatorFailure";
import styles from "./Tenants.module.css";

type Tenant = Schemas["OperatorTenant"];

const PAGE = 50;

const tenantsQuery = infiniteQueryOptions({
  queryKey: ["tenants"],
  queryFn: ({ pageParam, signal }) => take(api.GET("/v1/operator/tenants", { params: { query: { limit: PAGE, cursor: pageParam } }, signal })),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (last) => last.next_cursor,
});

export default function Tenants() {
  const pages = useInfiniteQuery(tenantsQuery);
  return (
    <Screen title="Tenants" about="Every account of this install, oldest first, and nothing of what is in it.">
      {pages.isPending ? (
        <Skeleton lines={10} />
      ) : pages.error ? (
        <Section>
          <OperatorFailure error={pages.error} retry={() => void pages.refetch()} />
        </Section>
      ) : (
        <Section flush>
          <List tenants={pages.data.pages.flatMap((page) => page.tenants)} />
          <LoadMore
            shown={`${plural(
              pages.data.pages.reduce((sum, page) => sum + page.tenants.length, 0),
              "account",
            )} shown`}
            hasMore={pages.hasNextPage}
            isLoading={pages.isFetchingNextPage}
            onLoad={() => void pages.fetchNextPage()}
          />
        </Section>
      )}
    </Screen>
  );
}

function List({ tenants }: { tenants: Tenant[] }) {
  return <Table label="Tenants" rows={tenants} keyOf={(tenant) => tenant.tenant_id} columns={COLUMNS} empty={<Empty icon="members" title="No accounts yet" />} />;
}

const COLUMNS: ColumnOf<Tenant>[] = [
  { id: "name", name: "Account", long: true, width: "2fr", cell: (tenant) => <Name tenant={tenant} /> },
  { id: "state", name: "State", width: "1fr", cell: (tenant) => <State tenant={tenant} /> },
  { id: "balance", name: "Balance", numeric: true, width: "1fr", cell: (tenant) => <Balance cents={tenant.balance_cents} /> },
  { id: "storage", name: "Storage", numeric: true, width: "1fr", cell: (tenant) => bytes(tenant.storage_bytes) },
  { id: "members", name: "Members", numeric: true, optional: true, width: "1fr", cell: (tenant) => count(tenant.members) },
  { id: "created", name: "Opened", optional: true, width: "1fr", cell: (tenant) => <Time at={tenant.created_at} /> },
];

/** With the id, which the operator's commands take. */
function Name({ tenant }: { tenant: Tenant }) {
  return (
    <span className={styles.name}>
      <ForeignInline text={tenant.name} length={80} />
      <CopyButton text={tenant.tenant_id} what={`the id of ${tenant.name}`} />
    </span>
  );
}

function State({ tenant }: { tenant: Tenant }) {
  if (tenant.deletion_at) {
    return (
      <span className={styles.state}>
        <Badge tone="warn">to be deleted</Badge> <Time at={tenant.deletion_at} />
      </span>
    );
  }
  return tenant.suspended_at ? <Badge tone="bad">suspended</Badge> : <Badge tone="good">open</Badge>;
}

function Balance({ cents }: { cents: number }) {
  return cents < 0 ? <span className={styles.owes}>{moneyOfCents(cents)}</span> : moneyOfCents(cents);
}
