// Work for people: the queues, the list of one queue, and the desk at which one works through it. All three are in the address.
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import type { Schemas } from "../../api/client";
import { queuesQuery } from "../../api/reviews";
import { useMay } from "../../api/session";
import { Link } from "../../parts/Link";
import { Screen, Section } from "../../parts/Screen";
import { NotPermitted } from "../../parts/States";
import { Table } from "../../parts/Table";
import { count, Time } from "../../parts/Values";
import { HowReviewsComeAbout } from "./HowReviewsComeAbout";
import { QueueList } from "./QueueList";
import { Work } from "./Work";

type Queue = Schemas["ReviewQueue"];

const REFRESH_MS = 15_000;

export default function QueueScreen() {
  const { queue, view, review } = useSearch({ strict: false }) as { queue?: string; view?: string; review?: string };
  const may = useMay();
  if (!queue) return <Queues />;
  if (view === "list") return <QueueList key={queue} queue={queue} />;
  if (!may("reviews.write")) {
    return (
      <Screen title={`Queue ${queue}`} actions={<Link to="/console/queue" search={{ queue, view: "list" }} kind="plain">List</Link>}>
        <Section>
          <NotPermitted action="reviews.write" />
        </Section>
      </Screen>
    );
  }
  return <Work key={queue} queue={queue} first={review} />;
}

function Queues() {
  const { data: queues } = useSuspenseQuery({ ...queuesQuery, refetchInterval: REFRESH_MS });
  const may = useMay();
  const navigate = useNavigate();
  const open = (row: Queue) => void navigate({ to: "/console/queue" as string, search: { queue: row.queue, ...(!may("reviews.write") && { view: "list" }) } as never });
  return (
    <Screen title="Queue" about="Objects that wait for a person. Choose a queue and work through it by keys.">
      <Section flush={queues.length > 0}>
        <Table
          label="Queues"
          rows={queues}
          keyOf={(row) => row.queue}
          onOpen={open}
          columns={[
            { id: "queue", name: "Queue", long: true, sort: (row) => row.queue, cell: (row) => <Link to="/console/queue" search={{ queue: row.queue, view: "list" }}>{row.queue}</Link> },
            { id: "open", name: "Waiting", numeric: true, sort: (row) => row.open, cell: (row) => count(row.open) },
            { id: "claimed", name: "Claimed", numeric: true, optional: true, sort: (row) => row.claimed, cell: (row) => count(row.claimed) },
            { id: "oldest", name: "Oldest", optional: true, cell: (row) => (row.oldest_at ? <Time at={row.oldest_at} /> : "none waits") },
            { id: "pace", name: "Resolved a day", numeric: true, optional: true, cell: (row) => row.resolved_a_day.toFixed(1) },
            { id: "work", name: "Work", cell: (row) => may("reviews.write") && <Link to="/console/queue" search={{ queue: row.queue }} kind="plain">{`Work through “${row.queue}”`}</Link> },
          ]}
          empty={<HowReviewsComeAbout title="No queue has ever held a review" />}
        />
      </Section>
    </Screen>
  );
}
