// What money was spent on: by day, by source, by model and by signal.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Schemas } from "../../api/client";
import { rulesQuery, signalsQuery } from "../../api/queries";
import { monthlyMicros, monthlyTotalMicros, rulesReading, usedDays } from "../../api/signal-use";
import { Chart } from "../../parts/Chart";
import { Link } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Columns, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Table, type ColumnOf } from "../../parts/Table";
import { count, moneyOfMicros, plural } from "../../parts/Values";
import styles from "./Billing.module.css";

type Usage = Schemas["Usage"];
type Breakdown = Schemas["UsageBreakdown"];

const UTC_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const SOURCES: Record<string, string> = { async: "After events", sync: "While the sender waited", bulk: "Bulk runs", playground: "Playground" };

export function UsageOf({ usage }: { usage: Usage }) {
  const x = useMemo(() => usage.series.map((day) => Date.parse(`${day.date}T00:00:00Z`) / 1000), [usage]);
  const series = useMemo(() => [{ name: "Spent", kind: "bars" as const, values: usage.series.map((day) => day.spend_micros) }], [usage]);
  if (usage.totals.analyses === 0) {
    return (
      <Section title="Usage">
        <Empty icon="billing" title="Nothing was analyzed in the last 30 days">
          What is spent shows here by day, source, model and signal.
        </Empty>
      </Section>
    );
  }
  return (
    <>
      <Section title="Usage">
        <Chart
          title={`Spent by UTC day, ${moneyOfMicros(usage.totals.spend_micros, usage.currency)} in ${usage.series.length} days`}
          x={x}
          xName="Day (UTC)"
          time
          series={series}
          height={180}
          format={(micros) => moneyOfMicros(micros, usage.currency)}
          formatX={(seconds) => UTC_DAY.format(seconds * 1000)}
        />
      </Section>
      <BySignal usage={usage} />
      <Columns>
        <Broken title="By source" name="Source" rows={usage.by_source} write={(key) => SOURCES[key] ?? key} currency={usage.currency} />
        <Broken title="By model" name="Model" rows={usage.by_model} write={(key) => key} currency={usage.currency} />
      </Columns>
    </>
  );
}

function Broken({ title, name, rows, write, currency }: { title: string; name: string; rows: readonly Breakdown[]; write: (key: string) => string; currency: string }) {
  const columns: ColumnOf<Breakdown>[] = [
    { id: "key", name, long: true, cell: (row) => write(row.key) },
    { id: "analyses", name: "Analyses", numeric: true, sort: (row) => row.analyses, cell: (row) => count(row.analyses) },
    { id: "tokens", name: "Tokens", numeric: true, optional: true, sort: (row) => row.input_tokens + row.output_tokens, cell: (row) => count(row.input_tokens + row.output_tokens) },
    { id: "spend", name: "Spent", numeric: true, sort: (row) => row.spend_micros, cell: (row) => moneyOfMicros(row.spend_micros, currency) },
  ];
  return (
    <Section title={title} flush>
      <Table label={`Usage ${title.toLowerCase()}`} rows={rows} keyOf={(row) => row.key} columns={columns} />
    </Section>
  );
}

interface SignalCost {
  key: string;
  analyses: number;
  monthMicros: number;
  readBy: string[];
  exists: boolean;
}

/** What each signal costs a month: its share of the questions asked, of all that was spent. */
export function signalCosts(usage: Usage, signals: readonly Schemas["Signal"][], rules: readonly Schemas["Rule"][]): SignalCost[] {
  return usage.by_signal.map((row) => ({
    key: row.signal,
    analyses: row.analyses,
    monthMicros: monthlyMicros(row.signal, usage) ?? 0,
    readBy: rulesReading(row.signal, rules)
      .filter((rule) => rule.enabled)
      .map((rule) => rule.name),
    exists: signals.some((signal) => signal.key === row.signal && signal.enabled),
  }));
}

/** How the figures by signal come from what was spent, so that they can be checked. */
function paceOf(usage: Usage): string {
  const [spent, month] = [usage.totals.spend_micros, monthlyTotalMicros(usage)].map((micros) => moneyOfMicros(micros, usage.currency));
  const days = usedDays(usage);
  const pace = days < 30 ? `${spent} in ${plural(days, "day")} would be ${month} in 30 days` : `${spent} were spent in 30 days`;
  return `An estimate for 30 days, not what was charged: ${pace}, divided by how often each signal was asked.`;
}

function BySignal({ usage }: { usage: Usage }) {
  const signals = useQuery(signalsQuery).data;
  const rules = useQuery(rulesQuery).data;
  if (!signals || !rules) return null;
  const columns: ColumnOf<SignalCost>[] = [
    { id: "signal", name: "Signal", cell: (row) => <span className={styles.key}><Link to="/console/quality" search={{ signal: row.key }}>{row.key}</Link></span> },
    { id: "analyses", name: "Analyses", numeric: true, optional: true, sort: (row) => row.analyses, cell: (row) => count(row.analyses) },
    { id: "month", name: "In 30 days, about", numeric: true, sort: (row) => row.monthMicros, cell: (row) => moneyOfMicros(row.monthMicros, usage.currency) },
    { id: "rules", name: "Read by", long: true, cell: (row) => <ReadBy row={row} currency={usage.currency} /> },
  ];
  return (
    <Section title="By signal, at this pace" about={paceOf(usage)} flush>
      <Table label="Usage by signal" rows={signalCosts(usage, signals, rules)} keyOf={(row) => row.key} columns={columns} />
    </Section>
  );
}

function ReadBy({ row, currency }: { row: SignalCost; currency: string }) {
  if (!row.exists) return <span className={styles.soft}>deleted or switched off</span>;
  if (row.readBy.length > 0) return <>{row.readBy.join(", ")}</>;
  return (
    <span className={styles.unread}>
      <Badge>unread</Badge>
      <span>{`No rule reads this signal; it costs about ${moneyOfMicros(row.monthMicros, currency)} a month.`}</span>
    </span>
  );
}
