// When a rule fired, for which object, with which answers, and what came of it: of one rule, and of all of them.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, type ReactNode } from "react";

import { ForeignInline } from "../../parts/Foreign";
import { Link, ObjectLink } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { plural, Time } from "../../parts/Values";
import { firingsQuery, type Firing, type Rule } from "./queries";
import { rulePath } from "./rule-path";
import styles from "./Rules.module.css";
import { valuesText } from "./values";

function Outcome({ firing }: { firing: Firing }) {
  if (firing.status === "dispatched") return <Badge tone="good">{firing.action_type === "review" ? "review opened" : "sent"}</Badge>;
  if (firing.status === "shadow") return <Badge tone="info">shadow</Badge>;
  return firing.status === "unconfirmed" ? <Badge tone="warn">recipient not confirmed</Badge> : <Badge tone="bad">failed</Badge>;
}

const DELIVERY = /^queued as delivery ([0-9a-f-]{36})$/;

/** What became of it; a delivery can be followed from here. */
function Detail({ text }: { text: string }) {
  const delivery = DELIVERY.exec(text)?.[1];
  if (!delivery) return <ForeignInline text={text} length={300} />;
  return (
    <Link to="/console/webhooks" search={{ tab: "deliveries", delivery }}>
      Its delivery
    </Link>
  );
}

const OBJECT: ColumnOf<Firing> = { id: "object", name: "Object", long: true, cell: (firing) => <ObjectLink id={firing.object_id} /> };
const WHAT_HAPPENED: ColumnOf<Firing>[] = [
  { id: "at", name: "Fired", cell: (firing) => <Time at={firing.fired_at} /> },
  { id: "outcome", name: "Outcome", cell: (firing) => <Outcome firing={firing} /> },
  { id: "values", name: "Answers then", optional: true, cell: (firing) => valuesText(firing.signal_values) },
  { id: "detail", name: "Detail", long: true, optional: true, cell: (firing) => <span className={styles.soft}>{firing.detail && <Detail text={firing.detail} />}</span> },
];
const OF_ONE = [OBJECT, ...WHAT_HAPPENED];

export function FiringsOf({ rule }: { rule: Rule }) {
  return (
    <Firings
      ruleId={rule.id}
      columns={OF_ONE}
      empty={
        <Empty
          icon="rules"
          title="It has not fired yet"
          action={
            <Link to="/console/explore" search={{ q: rule.when }} kind="plain">
              Objects that match now
            </Link>
          }
        >
          <p>It fires when an analysis makes its condition true for an object, from now on: with the object’s next events, or when you open an object and press “Analyze again”. This list turns by itself.</p>
          <p>What it would have done before is told by Replay, beside the rule.</p>
        </Empty>
      }
    />
  );
}

const columnsOfAll = (rules: readonly Rule[]): ColumnOf<Firing>[] => {
  const rule: ColumnOf<Firing> = {
    id: "rule",
    name: "Rule",
    long: true,
    cell: ({ rule_id }) => {
      const fired = rules.find(({ id }) => id === rule_id);
      return fired ? <Link to={rulePath(rule_id)}>{fired.name}</Link> : <span className={styles.soft}>deleted since</span>;
    },
  };
  // With the rule, a narrow screen has no room for the outcome, too.
  return [OBJECT, rule, ...WHAT_HAPPENED.map((column) => (column.id === "outcome" ? { ...column, optional: true } : column))];
};

export function AllFirings({ rules }: { rules: readonly Rule[] }) {
  const columns = useMemo(() => columnsOfAll(rules), [rules]);
  return (
    <Firings
      columns={columns}
      empty={
        <Empty icon="rules" title="No rule has fired yet">
          A rule fires when an analysis makes its condition true for an object.
        </Empty>
      }
    />
  );
}

function Firings({ ruleId, columns, empty }: { ruleId?: string; columns: ColumnOf<Firing>[]; empty: ReactNode }) {
  const pages = useInfiniteQuery(firingsQuery(ruleId));
  if (pages.isPending) return <Skeleton lines={8} />;
  if (pages.error) return <Failed error={pages.error} retry={() => void pages.refetch()} />;
  const rows = pages.data.pages.flatMap((page) => page.firings);
  return (
    <Section flush>
      <Table label="Firings" rows={rows} keyOf={(firing) => firing.id} columns={columns} empty={empty} />
      {rows.length > 0 && (
        <LoadMore shown={`${plural(rows.length, "firing")} shown, newest first`} hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} onLoad={() => void pages.fetchNextPage()} />
      )}
    </Section>
  );
}
