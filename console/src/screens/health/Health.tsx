// Whether the install is well, part by part, each with what to do. For operators.
import { useQuery } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import type { Tone } from "../../parts/Notice";
import { Badge, Notice } from "../../parts/Notice";
import { Screen, Section } from "../../parts/Screen";
import { Skeleton } from "../../parts/States";
import styles from "./Health.module.css";
import { OperatorFailure } from "./OperatorFailure";

type Install = Schemas["InstallHealth"];
type Part = Schemas["HealthPart"];
type State = Part["state"];

const REFRESH_MS = 15_000;
const NAMES: Record<keyof Install, string> = {
  queues: "Queues",
  lag: "Lag of analyses",
  analyzer: "Analyzer",
  second_analyzer: "Second analyzer",
  deliveries: "Webhook deliveries",
  mail: "Mail",
  database: "Database",
  nodes: "Nodes",
  disk: "Disk",
};
const TONES: Record<State, Tone> = { good: "good", worry: "warn", bad: "bad" };
const WORDS: Record<State, string> = { good: "good", worry: "worry", bad: "bad" };
const ORDER: State[] = ["bad", "worry", "good"];

const healthQuery = { queryKey: ["health"], queryFn: () => take(api.GET("/v1/operator/health")), refetchInterval: REFRESH_MS };

export default function Health() {
  const health = useQuery(healthQuery);
  return (
    <Screen title="Health" about="The whole install, for those who operate it. Read again every 15 seconds.">
      {health.isPending ? (
        <Skeleton lines={8} />
      ) : health.error ? (
        <Section>
          <OperatorFailure error={health.error} retry={() => void health.refetch()} />
        </Section>
      ) : (
        <Parts health={health.data} />
      )}
    </Screen>
  );
}

function Parts({ health }: { health: Install }) {
  const parts = Object.entries(health) as [keyof Install, Part][];
  const sorted = parts.toSorted(([, one], [, other]) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
  const wrong = sorted.filter(([, part]) => part.state !== "good").length;
  return (
    <>
      <Notice tone={wrong === 0 ? "good" : "warn"}>{wrong === 0 ? "Everything is well." : `${wrong} of ${sorted.length} parts need somebody.`}</Notice>
      <ul className={styles.parts}>
        {sorted.map(([name, part]) => (
          <li key={name} className={styles.part}>
            <header className={styles.head}>
              <h2>{NAMES[name]}</h2>
              <Badge tone={TONES[part.state]}>{WORDS[part.state]}</Badge>
            </header>
            <p>{part.advice}</p>
          </li>
        ))}
      </ul>
    </>
  );
}
