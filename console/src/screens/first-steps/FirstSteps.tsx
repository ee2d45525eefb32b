// From nothing to the first answer: make a key, send an event, watch it arrive.
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";

import { api, take } from "../../api/client";
import { meQuery, queries, useMay } from "../../api/session";
import { AnswerInline } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { CodeBlock, SecretOnce } from "../../parts/Code";
import { ForeignInline } from "../../parts/Foreign";
import { Form, Problem } from "../../parts/Form";
import { Icon } from "../../parts/Icon";
import { Link, ObjectLink } from "../../parts/Link";
import { Badge, Notice } from "../../parts/Notice";
import { Screen } from "../../parts/Screen";
import { Tabs } from "../../parts/Tabs";
import { plural } from "../../parts/Values";
import { createKey, keysQuery, type KeySecret } from "../keys/queries";
import { NewestRefusal } from "../keys/Refusals";
import { refusalsQuery } from "../keys/refusal-causes";
import styles from "./FirstSteps.module.css";
import { SNIPPETS } from "./snippets";
import { playStory } from "./story";

const POLL_MS = 2000;

/** The newest objects; asked for again and again until the first one is there and answered. */
const arrivalQuery = {
  queryKey: ["objects", "first"],
  queryFn: () => take(api.GET("/v1/objects", { params: { query: { sort: "recent", limit: 5 } } })),
};

export default function FirstSteps() {
  const may = useMay();
  const { data: keys } = useSuspenseQuery(keysQuery);
  const [made, setMade] = useState<KeySecret>();
  const arrival = useQuery({ ...arrivalQuery, refetchInterval: POLL_MS });
  const objects = arrival.data?.objects ?? [];
  const first = mostTelling(objects) ?? objects[0];
  const answered = first !== undefined && first.analysis.length > 0;
  // A bearer key cannot sign, and the snippets sign.
  const hasKey = keys.some((key) => key.status === "active" && key.kind !== "bearer");

  useEffect(() => {
    if (answered) void take(api.POST("/v1/me/onboarded")).then(() => queries.invalidateQueries({ queryKey: meQuery.queryKey }));
  }, [answered]);

  return (
    <Screen title="First steps" about="Three steps from here to the first answer. It takes about two minutes." narrow>
      <ol className={styles.steps}>
        <Step number={1} title="Make a key" done={hasKey}>
          {made ? (
            <SecretOnce
              note="Store the secret now: it is not shown again. The snippets below have it filled in until you leave this page."
              items={[
                { name: "Key", value: made.key },
                { name: "Secret", value: made.secret },
              ]}
            />
          ) : may("keys.write") ? (
            <>
              <p>{hasKey ? `You have ${plural(keys.length, "key")}. Make another one to fill in the snippets, or put yours in.` : "Your program signs its requests with it."}</p>
              <Form submit="Create a key" onSubmit={async () => setMade(await createKey("First key"))} beside={hasKey && <Link to="/console/keys">All keys</Link>} />
            </>
          ) : (
            <Notice>An admin or an owner of this account can make keys.</Notice>
          )}
        </Step>
        <Step number={2} title="Send an event" done={first !== undefined}>
          <Snippets made={made} />
          {may("refusals.read") && <RefusedMeanwhile since={first?.last_seen} />}
          {may("events.write") && <Story />}
        </Step>
        <Step number={3} title="See the answer" done={answered}>
          <Arrival error={arrival.error} first={first} />
        </Step>
      </ol>
    </Screen>
  );
}

type First = Awaited<ReturnType<typeof arrivalQuery.queryFn>>["objects"][number];

const highest = (object: First): number => Math.max(0, ...object.analysis.map((answer) => answer.noul ?? 0));

/** Of the objects with answers, the one with the highest probability: it shows best what signals are for. */
const mostTelling = (objects: readonly First[]): First | undefined =>
  objects.filter((object) => object.analysis.length > 0).toSorted((one, other) => highest(other) - highest(one))[0];

function Step({ number, title, done, children }: { number: number; title: string; done: boolean; children: ReactNode }) {
  return (
    <li className={styles.step} data-done={done || undefined}>
      <span className={styles.number} aria-hidden="true">
        {done ? <Icon name="check" /> : number}
      </span>
      <section className={styles.body} aria-label={title}>
        <h2>
          {title} {done && <Badge tone="good">done</Badge>}
        </h2>
        {children}
      </section>
    </li>
  );
}

function Snippets({ made }: { made: KeySecret | undefined }) {
  const access = { url: location.origin, key: made?.key ?? "ak_YOUR_KEY", secret: made?.secret ?? "sk_YOUR_SECRET" };
  const tabs = SNIPPETS.map((snippet) => ({
    id: snippet.id,
    name: snippet.name,
    content: (
      <>
        <p className={styles.run}>{snippet.before}</p>
        {snippet.install && <CodeBlock code={snippet.install} what={`the command that installs the ${snippet.name} client`} />}
        {snippet.run && (
          <p className={styles.run}>
            Save this, and run it with <code>{snippet.run}</code>:
          </p>
        )}
        <CodeBlock code={snippet.write(access)} what={`the ${snippet.name} snippet`} />
      </>
    ),
  }));
  return <Tabs label="Language" tabs={tabs} />;
}

/** The newest request that was refused since the last event came: the response to it does not say why. */
function RefusedMeanwhile({ since }: { since: string | undefined }) {
  const { data } = useQuery({ ...refusalsQuery, refetchInterval: POLL_MS });
  const newest = data?.[0];
  return <div aria-live="polite">{newest && (!since || newest.at > since) && <NewestRefusal refusal={newest} />}</div>;
}

function Story() {
  const [state, setState] = useState<{ sent?: number; problem?: unknown; pending?: boolean }>({});
  const play = async () => {
    setState({ pending: true });
    await playStory().then(
      (sent) => setState({ sent }),
      (problem: unknown) => setState({ problem }),
    );
    await queries.invalidateQueries({ queryKey: arrivalQuery.queryKey });
  };
  return (
    <div className={styles.story}>
      <p>Or without a program:</p>
      {/* Once: a seller who signs up a second time looks like another one. */}
      {state.sent === undefined ? (
        <Button isPending={state.pending} onPress={() => void play()}>
          Play a small marketplace story into this account
        </Button>
      ) : (
        <p role="status">
          {plural(state.sent, "object")} sent. <Link to="/console/explore">See them in Explore</Link>; you can delete them later, each on its own page.
        </p>
      )}
      {state.problem !== undefined && <Problem problem={state.problem} />}
    </div>
  );
}

function Arrival({ first, error }: { first: First | undefined; error: unknown }) {
  return (
    <div className={styles.arrival} aria-live="polite">
      {!first && (
        <p className={styles.waiting}>
          <span className={styles.pulse} aria-hidden="true" />
          {error ? "Cannot look for events right now; trying again." : "Waiting for your first event. This turns by itself."}
        </p>
      )}
      {first && first.analysis.length === 0 && (
        <p className={styles.waiting}>
          <span className={styles.pulse} aria-hidden="true" />
          <span>
            <ForeignInline text={first.object_id} length={120} /> has arrived. An analysis starts once it has been quiet for three seconds.
          </span>
        </p>
      )}
      {first && first.analysis.length > 0 && (
        <>
          <Notice tone="good">
            <ObjectLink id={first.object_id} name={first.display_name} /> has answers to {plural(first.analysis.length, "signal")}.
          </Notice>
          <dl className={styles.answers}>
            {first.analysis.map((answer) => (
              <div key={answer.key}>
                <dt>
                  <code>{answer.key}</code>
                </dt>
                <dd>
                  <AnswerInline answer={answer} label={answer.key} />
                </dd>
              </div>
            ))}
          </dl>
          <p className={styles.next}>
            <Link to="/console/overview" kind="primary">
              To the overview
            </Link>
            <Link to="/console/rules/new-rule" search={{ when: "is_scammer > 0.5" }} kind="plain">
              Make a rule
            </Link>
          </p>
        </>
      )}
    </div>
  );
}
