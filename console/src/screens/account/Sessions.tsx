// Where the member is signed in.
import { useSuspenseQuery } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { sentenceOf } from "../../api/error";
import { queries } from "../../api/session";
import { Button } from "../../parts/Button";
import { Badge } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { toast } from "../../parts/Toast";
import { Time } from "../../parts/Values";
import styles from "./Account.module.css";
import { sessionsQuery } from "./queries";

/** The browser and the system out of a `User-Agent`, as far as it says them. */
export function agentName(agent: string | undefined): string {
  if (!agent) return "Unknown program";
  const browser = agent.match(/(Edg|OPR|Firefox|Chrome|Safari)\/[\d.]+/)?.[1];
  const system = agent.match(/Windows|Android|iPhone|iPad|Mac OS X|Linux/)?.[0];
  const names: Record<string, string> = { Edg: "Edge", OPR: "Opera", "Mac OS X": "macOS" };
  if (!browser) return agent.slice(0, 60);
  return [names[browser] ?? browser, system && (names[system] ?? system)].filter(Boolean).join(" on ");
}

export function Sessions() {
  const { data: sessions } = useSuspenseQuery(sessionsQuery);
  const end = async (work: Promise<unknown>, done: string) => {
    try {
      await work;
      toast(done);
    } catch (error) {
      toast(sentenceOf(error), { tone: "bad" });
    }
    await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey });
  };
  const others = sessions.filter((session) => !session.current).length;
  const endAll = () => end(take(api.DELETE("/v1/me/sessions")), "All other sessions have ended.");
  return (
    <Section title="Sessions" about="Where you are signed in. A session ends by itself after 24 hours." actions={others > 0 && <Button onPress={() => void endAll()}>End all others</Button>}>
      <ul className={styles.list} aria-label="Sessions">
        {sessions.map((session) => (
          <SessionRow
            key={session.id}
            session={session}
            onEnd={() => void end(take(api.DELETE("/v1/me/sessions/{session_id}", { params: { path: { session_id: session.id } } })), "The session has ended.")}
          />
        ))}
      </ul>
    </Section>
  );
}

function SessionRow({ session, onEnd }: { session: Schemas["Session"]; onEnd: () => void }) {
  return (
    <li className={styles.row}>
      <div>
        <p title={session.agent}>
          {agentName(session.agent)} {session.current && <Badge tone="good">this one</Badge>}
        </p>
        <p className={styles.soft}>
          {session.address ?? "unknown address"}, last seen <Time at={session.last_seen_at} />, since <Time at={session.created_at} />
        </p>
      </div>
      {!session.current && (
        <Button aria-label={`End the session of ${agentName(session.agent)} at ${session.address ?? "an unknown address"}`} onPress={onEnd}>
          End
        </Button>
      )}
    </li>
  );
}
