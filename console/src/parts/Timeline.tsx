// What happened about an object, newest first: one list, one line for each kind of record, with its details below.
import { useMemo, type ReactNode } from "react";

import type { Schemas } from "../api/client";
import { answerText } from "./Answer";
import { MovedMark } from "./Explanation";
import { Foreign, ForeignInline } from "./Foreign";
import { Icon, type IconName } from "./Icon";
import { labelText } from "./Label";
import { partsOfEvents } from "./moved";
import { Badge, type Tone } from "./Notice";
import styles from "./Timeline.module.css";
import { Time } from "./Values";

type Item = Schemas["TimelineItem"];
type Signals = readonly Pick<Schemas["Signal"], "key" | "type" | "criteria">[];

/** What the records name by id or key. */
export interface Names {
  /** None while they are read. */
  rules: ReadonlyMap<string, string> | undefined;
  signals: Signals;
}

/** An explanation whose parts are marked in the events. */
export interface Moved {
  type: Schemas["SignalType"];
  parts: readonly Schemas["ExplainedPart"][];
}

/** The id of the element of an event that an explanation is about. */
export const eventElementId = (seq: number): string => `event-${seq}`;

interface LineProps {
  icon: IconName;
  kind: string;
  at: string;
  children: ReactNode;
  below?: ReactNode;
  /** Something can lead to it, by this id. */
  id?: string;
}

function Line({ icon, kind, at, children, below, id }: LineProps) {
  return (
    <li className={styles.item} data-kind={kind} id={id} tabIndex={id ? -1 : undefined}>
      <span className={styles.icon}>
        <Icon name={icon} size={14} />
      </span>
      <div className={styles.head}>
        <span className={styles.what}>{children}</span>
        <span className={styles.at}>
          <Time at={at} />
        </span>
      </div>
      {below && <div className={styles.below}>{below}</div>}
    </li>
  );
}

function Metadata({ metadata }: { metadata: unknown }) {
  const entries = metadata && typeof metadata === "object" ? Object.entries(metadata) : [];
  if (entries.length === 0) return null;
  return (
    <dl className={styles.metadata}>
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>
            <ForeignInline text={name} />
          </dt>
          <dd>
            <Foreign text={typeof value === "string" ? value : JSON.stringify(value)} code={typeof value !== "string"} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface EventProps {
  item: Item;
  part: Schemas["ExplainedPart"] | undefined;
  type: Schemas["SignalType"] | undefined;
}

function EventLine({ item, part, type }: EventProps) {
  const event = item.event as Schemas["Event"];
  return (
    <Line
      icon={event.type === "message" ? "queue" : "start"}
      kind="event"
      id={part?.seq === undefined ? undefined : eventElementId(part.seq)}
      at={item.at}
      below={
        (event.content || event.metadata) && (
          <>
            {event.content && <Foreign text={event.content} />}
            <Metadata metadata={event.metadata} />
          </>
        )
      }
    >
      {event.type === "message" ? "Message" : "Event"}
      {event.name && (
        <>
          {" "}
          <strong>
            <ForeignInline text={event.name} />
          </strong>
        </>
      )}
      {part && type && (
        <>
          {" "}
          <MovedMark moved={part.moved} type={type} />
        </>
      )}
    </Line>
  );
}

const SOURCES: Record<string, string> = { async: "after events", sync: "while the sender waited", bulk: "in a bulk run" };

function AnalysisLine({ item }: { item: Item }) {
  const analysis = item.analysis as Schemas["AnalysisRecord"];
  return (
    <Line
      icon="signals"
      kind="analysis"
      at={item.at}
      below={
        <ul className={styles.answers}>
          {analysis.answers.map((answer) => (
            <li key={answer.signal}>
              <code>{answer.signal}</code> {answerText(answer)}
            </li>
          ))}
        </ul>
      }
    >
      Analyzed <span className={styles.soft}>{`${SOURCES[analysis.source] ?? analysis.source}, by ${analysis.model}`}</span>
    </Line>
  );
}

const FIRING_TONE: Record<string, Tone> = { dispatched: "good", error: "bad", unconfirmed: "warn" };
const ACTIONS: Record<string, string> = { email: "email sent", slack: "chat message sent", webhook: "webhook queued", review: "review opened" };

function FiringLine({ item, names }: { item: Item; names: Names }) {
  const firing = item.firing as Schemas["RuleFiring"];
  return (
    <Line icon="rules" kind="firing" at={item.at} below={firing.status !== "dispatched" && firing.detail ? <Foreign text={firing.detail} /> : undefined}>
      Rule <strong>{names.rules ? (names.rules.get(firing.rule_id) ?? "that was deleted") : "…"}</strong> fired: <code className={styles.long}>{firing.matched_when}</code>{" "}
      <Badge tone={FIRING_TONE[firing.status]}>{firing.status === "dispatched" ? ACTIONS[firing.action_type] ?? firing.action_type : firing.status}</Badge>
    </Line>
  );
}

const DELIVERY_TONE: Record<string, Tone> = { delivered: "good", dead: "bad", pending: "info", delivering: "info" };

function DeliveryLine({ item }: { item: Item }) {
  const delivery = item.delivery as Schemas["WebhookDelivery"];
  return (
    <Line icon="webhooks" kind="delivery" at={item.at} below={delivery.last_error ? <Foreign text={delivery.last_error} /> : undefined}>
      Webhook <code>{delivery.event_type}</code> <Badge tone={DELIVERY_TONE[delivery.status]}>{delivery.status}</Badge>
      <span className={styles.soft}>
        {` ${delivery.attempts} of ${delivery.max_attempts} attempts`}
        {delivery.last_status_code !== undefined && `, answered ${delivery.last_status_code}`}
      </span>
    </Line>
  );
}

function LabelLine({ item, names }: { item: Item; names: Names }) {
  const label = item.label as Schemas["Label"];
  const signal = names.signals.find(({ key }) => key === label.signal);
  return (
    <Line icon="check" kind="label" at={item.at} below={label.note ? <Foreign text={label.note} /> : undefined}>
      <ForeignInline text={label.by.name} /> labelled <code>{label.signal}</code> <strong>{labelText(label.value, signal)}</strong>
      {label.answer && <span className={styles.soft}>{` when the answer was ${answerText(label.answer)}`}</span>}
    </Line>
  );
}

const REASONS: Record<string, string> = { rule: "by a rule", audit: "drawn at random", person: "by a person" };

function ReviewLine({ item }: { item: Item }) {
  const review = item.review as Schemas["Review"];
  return (
    <Line icon="queue" kind="review" at={item.at} below={review.note ? <Foreign text={review.note} /> : undefined}>
      Review opened in <strong>{review.queue}</strong>, {REASONS[review.reason] ?? review.reason}{" "}
      {review.status === "resolved" ? (
        <>
          <Badge tone="good">{review.decision ?? "resolved"}</Badge>
          {review.resolved_by && <span className={styles.soft}>{` by ${review.resolved_by.name}`}</span>}
        </>
      ) : (
        <Badge>{review.status === "claimed" ? `claimed by ${review.claimed_by?.name ?? "somebody"}` : "open"}</Badge>
      )}
    </Line>
  );
}

interface Props {
  items: readonly Item[];
  names: Names;
  label?: string;
  moved?: Moved;
}

/** The items of events with the parts of the explanation that they are. */
function markedEvents(items: readonly Item[], moved: Moved | undefined): Map<Item, Schemas["ExplainedPart"]> {
  const marked = new Map<Item, Schemas["ExplainedPart"]>();
  if (!moved) return marked;
  const events = items.filter((item) => item.event).toReversed();
  const parts = partsOfEvents(events.map((item) => item.event as Schemas["Event"]), moved.parts);
  events.forEach((item, index) => {
    const part = parts[index];
    if (part) marked.set(item, part);
  });
  return marked;
}

export function Timeline({ items, names, label = "Timeline", moved }: Props) {
  const marked = useMemo(() => markedEvents(items, moved), [items, moved]);
  return (
    <ol className={styles.timeline} aria-label={label}>
      {items.map((item, index) => {
        const key = item.id ?? `${item.kind} ${item.at} ${index}`;
        if (item.event) return <EventLine key={key} item={item} part={marked.get(item)} type={moved?.type} />;
        if (item.analysis) return <AnalysisLine key={key} item={item} />;
        if (item.firing) return <FiringLine key={key} item={item} names={names} />;
        if (item.delivery) return <DeliveryLine key={key} item={item} />;
        if (item.label) return <LabelLine key={key} item={item} names={names} />;
        if (item.review) return <ReviewLine key={key} item={item} />;
        return null;
      })}
    </ol>
  );
}
