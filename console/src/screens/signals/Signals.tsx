// Every question that the account asks about its objects: what it costs, what it answers, how good it is, and who reads it.
import { useQuery, useSuspenseQueries } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { rulesQuery, signalsQuery, usageQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { monthlyMicros, rulesReading, type Rule } from "../../api/signal-use";
import { Link } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Sparkline } from "../../parts/Sparkline";
import { Empty } from "../../parts/States";
import { Table, type ColumnOf } from "../../parts/Table";
import { textOf } from "../../parts/text";
import { moneyOfMicros, percent, plural } from "../../parts/Values";
import { WhenSeen } from "../../parts/WhenSeen";
import { typeName } from "./definition";
import { distributionQuery, qualityQuery, type Signal } from "./queries";
import styles from "./Signals.module.css";

/** What stands in for figures that are on their way. */
const BONE = <span className={styles.bone} aria-hidden="true" />;

export const signalPath = (key: string): string => `/console/signals/${key}`;

export default function Signals() {
  const [{ data: signals }, { data: rules }] = useSuspenseQueries({ queries: [signalsQuery, rulesQuery] });
  const may = useMay();
  const usage = useQuery({ ...usageQuery, enabled: may("money.read") }).data;
  const navigate = useNavigate();
  const create = may("signals.write") && (
    <Link to="/console/signals/new-signal" kind="primary" icon="plus">
      New signal
    </Link>
  );
  const price = usage?.metering_enabled ? (key: string) => monthlyMicros(key, usage) ?? 0 : undefined;
  return (
    <Screen title="Signals" about="A signal is a question that is asked about every object. Its answers are what rules and searches compare." actions={create}>
      <Section flush>
        <Table
          label="Signals"
          rows={signals}
          keyOf={(signal) => signal.key}
          columns={columnsOf(rules, price)}
          onOpen={(signal) => void navigate({ to: signalPath(signal.key) })}
          empty={
            <Empty icon="signals" title="No signals yet" action={create}>
              Without a signal there is nothing to ask about your objects. Start with a question that somebody in your team asks every day.
            </Empty>
          }
        />
      </Section>
      {price && signals.length > 0 && (
        <p className={styles.footnote}>The price is each signal’s share of what analyses cost in the last 30 days, by how often it was asked. One analysis asks all signals together.</p>
      )}
    </Screen>
  );
}

function columnsOf(rules: readonly Rule[], price: ((key: string) => number) | undefined): ColumnOf<Signal>[] {
  const columns: ColumnOf<Signal>[] = [
    { id: "key", name: "Signal", long: true, sort: (signal) => signal.key, cell: (signal) => <Named signal={signal} /> },
    { id: "type", name: "Type", sort: (signal) => typeName(signal.type), cell: (signal) => <span className={styles.nowrap}>{typeName(signal.type)}</span>, optional: true },
    { id: "answers", name: "Answers now", cell: (signal) => <WhenSeen placeholder={BONE}><Answers signal={signal} /></WhenSeen> },
    { id: "quality", name: "Quality", cell: (signal) => <WhenSeen placeholder={BONE}><Quality signal={signal} /></WhenSeen>, optional: true },
    { id: "rules", name: "Read by", cell: (signal) => <Readers rules={rulesReading(signal.key, rules)} />, optional: true },
  ];
  if (price) columns.push({ id: "price", name: "Price a month", numeric: true, sort: (signal) => price(signal.key), cell: (signal) => moneyOfMicros(price(signal.key)) });
  return columns;
}

function Named({ signal }: { signal: Signal }) {
  return (
    <span className={styles.named}>
      <Link to={signalPath(signal.key)}>
        <code>{signal.key}</code>
      </Link>
      {!signal.enabled && <Badge tone="warn">disabled</Badge>}
      <span className={styles.question}>{textOf(signal.instructions)}</span>
    </span>
  );
}

/** The distribution of a signal. Answers of a disabled signal are kept, but hidden everywhere. */
export function Answers({ signal }: { signal: Signal }) {
  const distribution = useQuery({ ...distributionQuery(signal.key), enabled: signal.enabled });
  if (!signal.enabled) return <span className={styles.soft}>hidden</span>;
  if (distribution.error) return <span className={styles.soft}>not available</span>;
  return distribution.data ? <Sparkline distribution={distribution.data} label={`Answers to ${signal.key}`} /> : BONE;
}

/** How good the answers are, in one figure with its interval. */
function Quality({ signal }: { signal: Signal }) {
  const { data, error } = useQuery(qualityQuery(signal.key));
  if (error) return <span className={styles.soft}>not available</span>;
  if (!data) return BONE;
  if (!data.accuracy) return <span className={`${styles.soft} ${styles.nowrap}`}>{data.labels === 0 ? "no labels" : `${plural(data.needs ?? 0, "more label")} needed`}</span>;
  return (
    <span>
      <span className={styles.nowrap}>{percent(data.accuracy.value)} right</span>{" "}
      <span className={styles.soft}>
        {percent(data.accuracy.low)} to {percent(data.accuracy.high)}, {plural(data.labels, "label")}
      </span>
    </span>
  );
}

function Readers({ rules }: { rules: readonly Rule[] }) {
  if (rules.length === 0) return <span className={`${styles.soft} ${styles.nowrap}`}>no rule</span>;
  const [first] = rules;
  if (rules.length === 1 && first) return <Link to={`/console/rules/${first.id}`}>{first.name}</Link>;
  return <>{plural(rules.length, "rule")}</>;
}
