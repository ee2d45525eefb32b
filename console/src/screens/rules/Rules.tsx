// Every rule: what it waits for, what it does, whether it acts or is only tried, and how often it fired; and the firings of all of them.
import { useQuery, useSuspenseQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { endpointsQuery, rulesQuery } from "../../api/queries";
import { useMay } from "../../api/session";
import { Link } from "../../parts/Link";
import { Badge } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { Table, type ColumnOf } from "../../parts/Table";
import { Tabs } from "../../parts/Tabs";
import { count, Time } from "../../parts/Values";
import { actionText } from "./action";
import { AllFirings } from "./Firings";
import { newestFiringsQuery, type Firing, type Rule } from "./queries";
import { rulePath } from "./rule-path";
import styles from "./Rules.module.css";

const DAY_MS = 86_400_000;

export default function Rules() {
  const { tab = "rules" } = useSearch({ strict: false }) as { tab?: string };
  const [{ data: rules }, { data: firings }] = useSuspenseQueries({ queries: [rulesQuery, newestFiringsQuery] });
  const endpoints = useQuery({ ...endpointsQuery, enabled: rules.some(({ action_type }) => action_type === "webhook") }).data;
  const navigate = useNavigate();
  const create = useMay()("rules.write") && (
    <Link to="/console/rules/new-rule" kind="primary" icon="plus">
      New rule
    </Link>
  );
  const all = (
    <Section flush>
      <Table
        label="Rules"
        rows={rules}
        keyOf={(rule) => rule.id}
        columns={columnsOf(endpoints, firings.firings, firings.next_cursor !== undefined)}
        onOpen={(rule) => void navigate({ to: rulePath(rule.id) })}
        empty={
          <Empty icon="rules" title="No rules yet" action={create}>
            Write a condition, see what it would have done, and let it run in shadow before it acts.
          </Empty>
        }
      />
    </Section>
  );
  return (
    <Screen title="Rules" about="A rule acts when the answers about an object meet its condition. In shadow it only records that it would have." actions={create}>
      <Tabs
        label="Parts of rules"
        selected={tab}
        onSelect={(next) => void navigate({ to: "/console/rules" as string, search: { tab: next === "rules" ? "" : next } as never, replace: true })}
        tabs={[
          { id: "rules", name: "Rules", content: all },
          { id: "firings", name: "Firings", content: <AllFirings rules={rules} /> },
        ]}
      />
    </Screen>
  );
}

export function RuleMode({ rule }: { rule: Rule }) {
  if (!rule.enabled) return <Badge tone="warn">{rule.disabled_reason ? `off: ${rule.disabled_reason}` : "off"}</Badge>;
  return rule.mode === "shadow" ? <Badge tone="info">shadow</Badge> : <Badge tone="good">live</Badge>;
}

function columnsOf(endpoints: Parameters<typeof actionText>[1], firings: readonly Firing[], isCapped: boolean): ColumnOf<Rule>[] {
  const newestOf = (rule: Rule) => firings.find((firing) => firing.rule_id === rule.id);
  const todayOf = (rule: Rule) => firings.filter((firing) => firing.rule_id === rule.id && Date.parse(firing.fired_at) >= Date.now() - DAY_MS).length;
  // Where even the oldest of the firings at hand is of today, there may be more of them.
  const oldest = firings.at(-1);
  const more = isCapped && oldest && Date.parse(oldest.fired_at) >= Date.now() - DAY_MS ? " or more" : "";
  return [
    { id: "name", name: "Rule", long: true, sort: (rule) => rule.name, cell: (rule) => <Link to={rulePath(rule.id)}>{rule.name}</Link> },
    { id: "mode", name: "Mode", sort: (rule) => (rule.enabled ? (rule.mode ?? "live") : "off"), cell: (rule) => <RuleMode rule={rule} /> },
    { id: "when", name: "Condition", long: true, optional: true, cell: (rule) => <code className={styles.when}>{rule.when}</code> },
    { id: "action", name: "Action", long: true, optional: true, cell: (rule) => actionText(rule, endpoints) },
    { id: "today", name: "Fired in 24 h", numeric: true, sort: todayOf, cell: (rule) => `${count(todayOf(rule))}${more}` },
    {
      id: "last",
      name: "Last fired",
      optional: true,
      sort: (rule) => newestOf(rule)?.fired_at ?? "",
      cell: (rule) => {
        const newest = newestOf(rule);
        if (newest) return <Time at={newest.fired_at} />;
        return <span className={styles.soft}>{isCapped ? "not lately" : "never"}</span>;
      },
    },
  ];
}
