// Everything that happened about an object, newest first, by kind and a page after another.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { KINDS, stateQuery, timelineQuery, type TimelineKind } from "../../api/objects";
import { rulesQuery } from "../../api/queries";
import { queries } from "../../api/session";
import { Checkbox } from "../../parts/Field";
import { Foreign } from "../../parts/Foreign";
import { Notice } from "../../parts/Notice";
import { Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore } from "../../parts/Table";
import { Timeline, type Moved, type Names } from "../../parts/Timeline";
import { plural, Time } from "../../parts/Values";
import styles from "./Object.module.css";

interface Props {
  objectId: string;
  /** How many events were ever recorded. */
  eventCount: number;
  signals: Names["signals"];
  moved: Moved | undefined;
  /** Answers are on their way: the list is read again when they have come. */
  pending: boolean;
}

export function History({ objectId, eventCount, signals, moved, pending }: Props) {
  const [hidden, setHidden] = useState<ReadonlySet<TimelineKind>>(new Set());
  const kinds = hidden.size === 0 ? [] : KINDS.map(({ id }) => id).filter((id) => !hidden.has(id));
  const none = hidden.size === KINDS.length;
  const timeline = useInfiniteQuery({ ...timelineQuery(objectId, kinds), enabled: !none, placeholderData: (before) => before });
  const wasPending = useRef(pending);
  useEffect(() => {
    if (wasPending.current && !pending) void queries.invalidateQueries({ queryKey: ["object", objectId, "timeline"] });
    wasPending.current = pending;
  }, [pending, objectId]);
  const toggle = (kind: TimelineKind, shown: boolean) => {
    const next = new Set(hidden);
    if (shown) next.delete(kind);
    else next.add(kind);
    setHidden(next);
  };
  const items = none ? [] : (timeline.data?.pages.flatMap((page) => page.items) ?? []);
  const rules = useQuery({ ...rulesQuery, enabled: items.some((item) => item.firing) }).data;
  const names = useMemo<Names>(() => ({ rules: rules && new Map(rules.map((rule) => [rule.id, rule.name])), signals }), [rules, signals]);
  const isWhole = timeline.isSuccess && !timeline.hasNextPage;
  const hasEveryEvent = items.filter((item) => item.event).length >= eventCount;
  return (
    <Section title="Timeline">
      <div className={styles.filters} role="group" aria-label="Kinds that are shown">
        {KINDS.map((kind) => (
          <Checkbox key={kind.id} isSelected={!hidden.has(kind.id)} onChange={(shown) => toggle(kind.id, shown)}>
            {kind.name}
          </Checkbox>
        ))}
      </div>
      {timeline.isPending && !none ? (
        <Skeleton lines={8} />
      ) : timeline.error ? (
        <Failed error={timeline.error} retry={() => void timeline.refetch()} />
      ) : items.length === 0 ? (
        <Empty icon="audit" title={hidden.size > 0 ? "Nothing of the kinds that are shown" : "Nothing is kept of what happened"}>
          {hidden.size > 0 ? "Switch more kinds on above." : "Events may have been deleted by the account's retention."}
        </Empty>
      ) : (
        <>
          <Timeline items={items} names={names} moved={moved} />
          <LoadMore
            shown={`${plural(items.length, "entry", "entries")} shown`}
            hasMore={timeline.hasNextPage}
            isLoading={timeline.isFetchingNextPage}
            onLoad={() => void timeline.fetchNextPage()}
          />
        </>
      )}
      {isWhole && !hasEveryEvent && <Compacted objectId={objectId} />}
    </Section>
  );
}

/** What is left of events that are no longer kept one by one. */
function Compacted({ objectId }: { objectId: string }) {
  const state = useQuery(stateQuery(objectId)).data;
  const summary = state?.compacted_state;
  if (!state || !summary || state.compacted_events === 0) return null;
  return (
    <Notice>
      <p>
        {plural(state.compacted_events, "earlier event")} kept as a summary only, from <Time at={summary.first_seen} /> on: {plural(summary.messages, "message")} and{" "}
        {plural(summary.actions, "action")}.
      </p>
      {(summary.sample_messages ?? []).map((message, index) => (
        <Foreign key={index} text={message} />
      ))}
    </Notice>
  );
}
