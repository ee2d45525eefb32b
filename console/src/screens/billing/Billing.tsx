// Money: what is there, how long it lasts, what it was spent on.
import { useSuspenseQueries } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import type { Schemas } from "../../api/client";
import { usageQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { Notice } from "../../parts/Notice";
import { GuardedScreen, Section } from "../../parts/Screen";
import { bytes, compact, moneyOfCents, moneyOfMicros, plural } from "../../parts/Values";
import styles from "./Billing.module.css";
import { CheckoutReturn } from "./CheckoutReturn";
import { Ledger } from "./Ledger";
import { balanceQuery } from "./queries";
import { TopUp } from "./TopUp";
import { UsageOf } from "./Usage";

export default function Billing() {
  const may = useMay();
  return (
    <GuardedScreen title="Billing" about="Analyses are paid from a balance, by what they read. Days are days in UTC." needs="money.read">
      {may("money.read") && <Money />}
    </GuardedScreen>
  );
}

function Money() {
  const { checkout } = useSearch({ strict: false }) as { checkout?: string };
  const [{ data: balance }, { data: usage }] = useSuspenseQueries({ queries: [balanceQuery, usageQuery] });
  return (
    <>
      {checkout && <CheckoutReturn key={checkout} id={checkout} />}
      <Warnings balance={balance} />
      <Figures balance={balance} usage={usage} />
      <TopUp balance={balance} />
      <UsageOf usage={usage} />
      <Ledger currency={balance.currency} />
    </>
  );
}

function Warnings({ balance }: { balance: Schemas["Balance"] }) {
  if (!balance.metering_enabled) return <Notice>This server does not charge: analyses are counted, and cost nothing.</Notice>;
  if (balance.balance_cents <= 0) {
    return (
      <Notice tone="bad">
        {balance.enforcement === "block" ? "The balance is empty: events, verdicts and the playground are refused, and queued analyses wait for the next credit." : "The balance is used up; work goes on for now."}
      </Notice>
    );
  }
  if (balance.balance_cents < balance.low_balance_threshold_cents) return <Notice tone="warn">{`The balance is below ${moneyOfCents(balance.low_balance_threshold_cents, balance.currency)}.`}</Notice>;
  return null;
}

const YEARS = 3650;

/** "12 days", "about 4 months", "10+ years". */
function runwayOf(days: number | undefined): string {
  if (days === undefined) return "no end in sight";
  return days > YEARS ? "10+ years" : days >= 60 ? `about ${plural(Math.round(days / 30), "month")}` : plural(Math.floor(days), "day");
}

function Figures({ balance, usage }: { balance: Schemas["Balance"]; usage: Schemas["Usage"] }) {
  const days = usage.series.length;
  const figures: [name: string, value: string, means: string][] = [
    ["Balance", moneyOfCents(balance.balance_cents, balance.currency), `in ${balance.currency.toUpperCase()}`],
    ["Lasts for", runwayOf(usage.runway_days), usage.burn_rate_micros_per_day > 0 ? `at ${moneyOfMicros(usage.burn_rate_micros_per_day, usage.currency)} a day` : "nothing is spent at present"],
    [`Spent in ${days} days`, moneyOfMicros(usage.totals.spend_micros, usage.currency), `${plural(usage.totals.analyses, "analysis", "analyses")}`],
    ["Read", compact(usage.totals.input_tokens), `tokens in ${days} days`],
    ["Events kept", bytes(usage.storage_bytes), "contents and metadata"],
  ];
  return (
    <Section flush>
      <ul className={styles.figures} aria-label="Figures">
        {figures.map(([name, value, means]) => (
          <li key={name} className={styles.figure}>
            <span>{name}</span>
            <span className={styles.value}>{value}</span>
            <span className={styles.soft}>{means}</span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
