// What is going on, and what changed since yesterday. Every number leads to its list.
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { useMay, useMe } from "../../api/session";
import { AnswerInline, ProbabilityBar } from "../../parts/Answer";
import { Chart } from "../../parts/Chart";
import { plainForeign } from "../../parts/Foreign";
import { Link, ObjectLink } from "../../parts/Link";
import { Notice } from "../../parts/Notice";
import { Columns, Screen, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Table } from "../../parts/Table";
import { absoluteTime, compact, count, moneyOfMicros, percent, plural } from "../../parts/Values";
import styles from "./Overview.module.css";

const REFRESH_MS = 15_000;
const DAY_S = 86_400;
/** The overview has as many days, if something happened on the first of them; the chart always has. */
const DAYS = 14;
/** Below, "no" is likelier: such an answer is not among the highest, however few there are. */
const LEAST_LISTED = 0.5;
const UTC_DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

const overviewQuery = { queryKey: ["overview"], queryFn: () => take(api.GET("/v1/overview")), refetchInterval: REFRESH_MS };
const usageQuery = { queryKey: ["usage", "30 days"], queryFn: () => take(api.GET("/v1/usage")), refetchInterval: 4 * REFRESH_MS };

export default function Overview() {
  const me = useMe();
  const may = useMay();
  const { data: overview } = useSuspenseQuery(overviewQuery);
  const usage = useQuery({ ...usageQuery, enabled: may("money.read") });
  return (
    <Screen title="Overview" about={`${me.tenant_name}, as of now. “Today” is the day in UTC.`}>
      {me.email_verified === false && (
        <Notice tone="warn">Your address {me.email} is not confirmed yet. Open the link in the mail that you got when you registered; until then rules cannot mail anybody else. A service without a mail server keeps its mails in <code>mail</code> in its data folder.</Notice>
      )}
      {me.deletes_at && (
        <Notice tone="bad">
          An owner has asked to delete this account. Everything in it is deleted on {absoluteTime(me.deletes_at)}; until then every owner can <Link to="/console/account">take that back under Account</Link>.
        </Notice>
      )}
      <Figures overview={overview} usage={usage.data} />
      {overview.objects === 0 ? (
        <Section>
          <Empty icon="start" title="No objects yet" action={<Link to="/console/first-steps" kind="primary">First steps</Link>}>
            An object appears with its first event. First steps shows how to send one.
          </Empty>
        </Section>
      ) : (
        <>
          <Columns>
            <TopRisk overview={overview} />
            <Signals overview={overview} />
          </Columns>
          <Columns>
            <Firings overview={overview} />
            {usage.data && <Analyses usage={usage.data} />}
          </Columns>
        </>
      )}
    </Screen>
  );
}

function Figure({ name, value, change, to, search }: { name: string; value: string; change: readonly string[]; to: string; search?: Record<string, string> }) {
  return (
    <li className={styles.figure}>
      <span className={styles.name}>
        <Link to={to} search={search}>
          {name}
        </Link>
      </span>
      <span className={styles.value}>{value}</span>
      {change.map((line) => (
        <span key={line} className={styles.change}>
          {line}
        </span>
      ))}
    </li>
  );
}

/** What happened today, and yesterday; nothing of a day before the first that is known. */
function changeOf(days: Schemas["Overview"]["days"], of: (day: Schemas["OverviewDay"]) => number): { today: number; yesterday: string } {
  const [yesterday, today] = days.length > 1 ? days.slice(-2) : [undefined, days.at(-1)];
  return { today: today ? of(today) : 0, yesterday: yesterday ? `${compact(of(yesterday))} yesterday` : "none recorded yesterday" };
}

function Figures({ overview, usage }: { overview: Schemas["Overview"]; usage: Schemas["Usage"] | undefined }) {
  const seen = changeOf(overview.days, (day) => day.objects);
  const flagged = changeOf(overview.days, (day) => day.flagged);
  const fired = changeOf(overview.days, (day) => day.firings);
  const [yesterday, today] = usage?.series.slice(-2) ?? [];
  return (
    <ul className={styles.figures} aria-label="Figures">
      <Figure
        name="Objects"
        value={compact(overview.objects)}
        change={[`${compact(seen.today)} new today, ${seen.yesterday}`, `${percent(overview.analyzed_pct)} analyzed`]}
        to="/console/explore"
      />
      <Figure
        name="High answers"
        value={compact(overview.flagged)}
        change={[`${compact(flagged.today)} ${flagged.today === 1 ? "time" : "times"} today, ${flagged.yesterday}`, "80\u00a0% or more on a yes/no signal"]}
        to="/console/explore"
        search={{ sort: "flagged" }}
      />
      <Figure name="Events" value={compact(overview.events_today)} change={[`in the last 24 hours, ${compact(overview.events_yesterday)} in the 24 before`]} to="/console/explore" search={{ sort: "recent" }} />
      <Figure name="Rules fired today" value={compact(fired.today)} change={[fired.yesterday]} to="/console/rules" search={{ tab: "firings" }} />
      {today && yesterday && (
        <Figure name="Analyses today" value={compact(today.analyses)} change={[`${compact(yesterday.analyses)} yesterday`]} to="/console/billing" />
      )}
      {today && yesterday && (
        <Figure name="Spent today" value={moneyOfMicros(today.spend_micros)} change={[`${moneyOfMicros(yesterday.spend_micros)} yesterday`]} to="/console/billing" />
      )}
    </ul>
  );
}

function TopRisk({ overview }: { overview: Schemas["Overview"] }) {
  return (
    <Section title="Highest answers" about="To any yes/no signal, from 50 % on. Yes can be good or bad." flush actions={<Link to="/console/explore" search={{ sort: "flagged" }}>All</Link>}>
      <Table
        label="Objects with the highest answers"
        rows={overview.top_risk.filter(({ risk }) => risk >= LEAST_LISTED)}
        keyOf={(row) => row.object_id}
        columns={[
          { id: "object", name: "Object", long: true, cell: (row) => <ObjectLink id={row.object_id} name={row.display_name} /> },
          { id: "risk", name: "Answer", cell: (row) => <ProbabilityBar value={row.risk} label={`Highest answer about ${plainForeign(row.display_name ?? row.object_id)}`} mark={0.8} /> },
        ]}
        empty={<Empty icon="good" title="No high answers">No yes/no signal has an answer of 50 % or more.</Empty>}
      />
    </Section>
  );
}

function Signals({ overview }: { overview: Schemas["Overview"] }) {
  return (
    <Section title="Signals" about="The average answer over all objects." flush actions={<Link to="/console/signals">All</Link>}>
      <Table
        label="Signals"
        rows={overview.signal_summary}
        keyOf={(row) => row.key}
        columns={[
          { id: "key", name: "Signal", cell: (row) => <code>{row.key}</code> },
          { id: "answers", name: "Answers", numeric: true, cell: (row) => compact(row.total) },
          { id: "average", name: "Average", cell: (row) => <Average summary={row} /> },
        ]}
        empty={<Empty icon="signals" title="No signals" action={<Link to="/console/signals" kind="plain">Make one</Link>} />}
      />
    </Section>
  );
}

function Average({ summary }: { summary: Schemas["SignalSummary"] }) {
  if (summary.type === "noul" && summary.avg !== undefined) return <ProbabilityBar value={summary.avg} label={`Average of ${summary.key}`} />;
  if (summary.type === "score" && summary.avg !== undefined) return <>{summary.avg.toFixed(2)}</>;
  const shares = Object.entries(summary.choices ?? {}).sort(([, one], [, other]) => other - one);
  const [likeliest] = shares;
  if (!likeliest) return <>no answers yet</>;
  const total = shares.reduce((sum, [, share]) => sum + share, 0) || 1;
  return <AnswerInline label={summary.key} answer={{ type: "choice", choice: likeliest[0], probabilities: { [likeliest[0]]: likeliest[1] / total } }} />;
}

function Firings({ overview }: { overview: Schemas["Overview"] }) {
  const { days } = overview;
  const known = days.map(secondsOf);
  const unknown = Math.max(0, DAYS - known.length);
  const before = Array.from({ length: unknown }, (_, index) => (known[0] ?? 0) - (unknown - index) * DAY_S);
  const total = days.reduce((sum, day) => sum + day.firings, 0);
  return (
    <Section title="Firings" about="How often rules fired, in shadow too." actions={<Link to="/console/rules" search={{ tab: "firings" }}>All</Link>}>
      <Chart
        title={`Firings by UTC day, ${plural(total, "firing")} ${unknown > 0 && known[0] !== undefined ? `since ${UTC_DAY.format(known[0] * 1000)}` : `in ${plural(days.length, "day")}`}`}
        x={[...before, ...known]}
        xName="Day (UTC)"
        time
        format={count}
        formatX={(seconds) => UTC_DAY.format(seconds * 1000)}
        series={[{ name: "Firings", kind: "bars", values: [...before.map(() => null), ...days.map((day) => day.firings)] }]}
        height={180}
      />
    </Section>
  );
}

const secondsOf = ({ date }: { date: string }): number => Date.parse(`${date}T00:00:00Z`) / 1000;

function Analyses({ usage }: { usage: Schemas["Usage"] }) {
  const x = usage.series.map(secondsOf);
  return (
    <Section title="Analyses" about="How often objects were analyzed.">
      <Chart
        title={`Analyses by UTC day, ${plural(usage.totals.analyses, "analysis", "analyses")} in ${usage.series.length} days`}
        x={x}
        xName="Day (UTC)"
        time
        format={count}
        formatX={(seconds) => UTC_DAY.format(seconds * 1000)}
        series={[{ name: "Analyses", kind: "bars", values: usage.series.map((day) => day.analyses) }]}
        height={180}
      />
    </Section>
  );
}
