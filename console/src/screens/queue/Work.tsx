// The desk: one object at a time with everything that is needed to decide, by keys.
import { useInfiniteQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Suspense, useEffect, useMemo, useRef, useState, type RefObject } from "react";

import { timelineQuery } from "../../api/objects";
import { rulesQuery, signalsQuery } from "../../api/queries";
import { deskQuery, queuesQuery } from "../../api/reviews";
import { useMe } from "../../api/session";
import { useStore } from "../../api/store";
import { Button } from "../../parts/Button";
import { ForeignInline } from "../../parts/Foreign";
import { optionOfDigit } from "../../parts/Label";
import { Link, objectPath } from "../../parts/Link";
import { Screen, Section } from "../../parts/Screen";
import { Failed, Skeleton } from "../../parts/States";
import { LoadMore } from "../../parts/Table";
import { Timeline, type Names } from "../../parts/Timeline";
import { toast } from "../../parts/Toast";
import { count, plural } from "../../parts/Values";
import { useShortcuts } from "../../shell/shortcuts";
import { Decide } from "./Decide";
import { Desk, DESK_KINDS, deskObjectQuery, type DeskState, type Item } from "./desk";
import { HowReviewsComeAbout } from "./HowReviewsComeAbout";
import styles from "./Queue.module.css";

const REFRESH_MS = 15_000;

function useDesk(queue: string, first: string | undefined): Desk | undefined {
  const me = useMe();
  const [desk, setDesk] = useState<Desk>();
  const opening = useRef(first);
  useEffect(() => {
    const opened = new Desk(queue, me.user_id);
    setDesk(opened);
    void opened.start(opening.current);
    return () => opened.close();
  }, [queue, me.user_id]);
  return desk;
}

export function Work({ queue, first }: { queue: string; first: string | undefined }) {
  const desk = useDesk(queue, first);
  return (
    <Screen
      title={`Queue ${queue}`}
      actions={
        <>
          <Link to="/console/queue" search={{ queue, view: "list" }} kind="plain">
            List
          </Link>
          <Link to="/console/queue" kind="plain">
            All queues
          </Link>
        </>
      }
    >
      <Suspense fallback={<Skeleton lines={10} />}>{desk ? <AtDesk desk={desk} /> : <Skeleton lines={10} />}</Suspense>
    </Screen>
  );
}

function AtDesk({ desk }: { desk: Desk }) {
  const state = useStore(desk.state);
  useSuspenseQuery(deskQuery);
  const { data: signals } = useSuspenseQuery(signalsQuery);
  const rules = useQuery(rulesQuery).data;
  const names = useMemo<Names>(() => ({ rules: rules && new Map(rules.map((rule) => [rule.id, rule.name])), signals }), [rules, signals]);
  const decision = useRef<HTMLDivElement>(null);
  const item = state.items[state.at];
  const asked = item ? signals.filter(({ key }) => item.review.signals.includes(key)) : [];
  const [active, setActive] = useActiveSignal(item, asked.map(({ key }) => key));
  const resolve = () => {
    const missing = desk.resolve();
    if (missing) toast(missing, { tone: "bad" });
  };
  const choose = (digit: number) => {
    const signal = asked.find(({ key }) => key === active);
    const option = signal && optionOfDigit(signal, digit);
    if (signal && option) desk.label(signal.key, option.value);
  };
  useDeskShortcuts(desk, { resolve, choose, focus: decision, nextSignal: () => setActive(next(asked.map(({ key }) => key), active)) });
  return (
    <>
      <Progress desk={desk} state={state} />
      {item ? (
        <div className={styles.desk}>
          <TheObject key={item.review.id} item={item} names={names} />
          <Decide desk={desk} item={item} signals={asked} active={active} onActive={setActive} onResolve={resolve} rule={item.review.rule_id && names.rules?.get(item.review.rule_id)} decisionRef={decision} />
        </div>
      ) : (
        <Section>
          <NoItem desk={desk} state={state} />
        </Section>
      )}
    </>
  );
}

const next = (keys: readonly string[], active: string | undefined): string | undefined => keys[(keys.indexOf(active ?? "") + 1) % Math.max(1, keys.length)];

/** The signal that digits label: the first without a label, or the one that was chosen. */
function useActiveSignal(item: Item | undefined, keys: readonly string[]): [string | undefined, (key: string | undefined) => void] {
  const [chosen, setChosen] = useState<string>();
  const labelled = Object.keys(item?.labels ?? {}).join();
  useEffect(() => setChosen(undefined), [item?.review.id, labelled]);
  const open = keys.find((key) => item?.labels[key] === undefined);
  return [chosen ?? open ?? keys[0], setChosen];
}

interface Acts {
  resolve: () => void;
  choose: (digit: number) => void;
  nextSignal: () => void;
  focus: RefObject<HTMLDivElement | null>;
}

function useDeskShortcuts(desk: Desk, acts: Acts): void {
  const group = "Queue";
  useShortcuts([
    { keys: "j", name: "Next object", group, run: () => desk.next() },
    { keys: "k", name: "Previous object", group, run: () => desk.previous() },
    { keys: "Enter", name: "Resolve and go on", group, run: acts.resolve },
    { keys: "s", name: "Skip: give it back for others", group, run: () => desk.skip() },
    { keys: "u", name: "Undo: open the last one again", group, run: () => void desk.undo() },
    { keys: "n", name: "Next signal", group, run: acts.nextSignal },
    { keys: "d", name: "Type a decision", group, run: () => acts.focus.current?.querySelector("input")?.focus() },
    { keys: "0", name: "Label with level 0 of a score", group, run: () => acts.choose(0) },
    ...Array.from({ length: 9 }, (_, index) => ({ keys: String(index + 1), name: `Label with option ${index + 1}, or with level ${index + 1} of a score`, group, run: () => acts.choose(index + 1) })),
  ]);
}

function Progress({ desk, state }: { desk: Desk; state: DeskState }) {
  const queues = useQuery({ ...queuesQuery, refetchInterval: REFRESH_MS });
  const queue = queues.data?.find((each) => each.queue === desk.queue);
  const done = state.resolvedAt.length;
  // What is left then is nothing for this sitting: what was skipped, and what others have. The end says so.
  const isOver = state.exhausted && state.at >= state.items.length;
  const left = queue ? queue.open + queue.claimed : undefined;
  const minutes = Math.max(0.25, ((state.resolvedAt.at(-1) ?? desk.startedAt) - desk.startedAt) / 60_000);
  const pace = done / minutes;
  const total = done + (left ?? 0);
  return (
    <div className={styles.progress}>
      {!isOver && (
        <span>
          <strong>{left === undefined ? "…" : count(left)}</strong> left
        </span>
      )}
      <span>
        <strong>{count(done)}</strong> done in this sitting
      </span>
      {done > 0 && <span>{`${pace.toFixed(1)} a minute`}</span>}
      {!isOver && done > 0 && left !== undefined && left > 0 && <span>{`about ${plural(Math.max(1, Math.ceil(left / pace)), "minute")} to go`}</span>}
      <progress className={styles.bar} aria-label="Progress of this sitting" max={Math.max(1, total)} value={isOver ? Math.max(1, total) : done} />
      <span className={styles.buttons}>
        <Button kind="quiet" aria-keyshortcuts="k" isDisabled={state.at === 0} onPress={() => desk.previous()}>
          Previous
        </Button>
        <Button kind="quiet" aria-keyshortcuts="j" isDisabled={state.at >= state.items.length} onPress={() => desk.next()}>
          Next
        </Button>
        <Button kind="quiet" aria-keyshortcuts="u" isDisabled={done === 0} onPress={() => void desk.undo()}>
          Undo
        </Button>
      </span>
    </div>
  );
}

/** What is shown while the next review is awaited, and when none is left. */
function NoItem({ desk, state }: { desk: Desk; state: DeskState }) {
  if (state.error !== undefined) return <Failed error={state.error} retry={() => desk.retry()} />;
  if (!state.exhausted) return <Skeleton lines={8} label="Claiming the next review" />;
  const skipped = state.items.filter((item) => item.state === "skipped").length;
  const done = state.resolvedAt.length;
  const title = done > 0 ? `Done: you resolved ${plural(done, "review")}` : skipped > 0 ? "You skipped all that waited" : "Nothing waits in this queue";
  return (
    <HowReviewsComeAbout
      title={title}
      action={
        <span className={styles.buttons}>
          {skipped > 0 ? <Button kind="primary" onPress={() => desk.again()}>{`Look at ${skipped} skipped again`}</Button> : <Button onPress={() => desk.retry()}>Look for new ones</Button>}
        </span>
      }
    />
  );
}

function TheObject({ item, names }: { item: Item; names: Names }) {
  const id = item.review.object_id;
  const object = useQuery(deskObjectQuery(id));
  // Its first page comes along with the object.
  const timeline = useInfiniteQuery({ ...timelineQuery(id, DESK_KINDS), enabled: !object.isPending });
  const items = timeline.data?.pages.flatMap((page) => page.items) ?? [];
  const name = object.data?.display_name ?? id;
  return (
    <section className={styles.object} aria-label="The object">
      <header className={styles.objectHead}>
        <h2 aria-live="polite">
          <ForeignInline text={name} length={160} />
        </h2>
        <span className={styles.soft}>
          {object.data && <ForeignInline text={object.data.object_type} length={64} />}{" "}
          <code>
            <ForeignInline text={id} length={80} />
          </code>
        </span>
        <Link to={objectPath(id)}>Everything about it</Link>
      </header>
      {object.error ? (
        <Failed error={object.error} />
      ) : timeline.isPending ? (
        <Skeleton lines={8} />
      ) : timeline.error ? (
        <Failed error={timeline.error} retry={() => void timeline.refetch()} />
      ) : (
        <div className={styles.scroll} tabIndex={0} role="region" aria-label="What happened">
          <Timeline items={items} names={names} label="What happened about the object" />
          {timeline.hasNextPage && <LoadMore shown={`${plural(items.length, "entry", "entries")} shown`} hasMore isLoading={timeline.isFetchingNextPage} onLoad={() => void timeline.fetchNextPage()} />}
        </div>
      )}
    </section>
  );
}
