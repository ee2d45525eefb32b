// What a person decides about the object at the desk: a label for each signal that is asked for, a decision, a note.
import { useQuery } from "@tanstack/react-query";
import type { RefObject } from "react";

import type { Schemas } from "../../api/client";
import { objectQuery } from "../../api/objects";
import type { Review } from "../../api/reviews";
import { AnswerInline } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { TextField } from "../../parts/Field";
import { LabelButtons } from "../../parts/Label";
import { Notice } from "../../parts/Notice";
import { textOf } from "../../parts/text";
import { absoluteTime } from "../../parts/Values";
import { decisionOf, type Desk, type Item } from "./desk";
import styles from "./Queue.module.css";

interface Props {
  desk: Desk;
  item: Item;
  signals: readonly Schemas["Signal"][];
  /** The signal that digits label. */
  active: string | undefined;
  onActive: (key: string) => void;
  onResolve: () => void;
  rule: string | undefined;
  decisionRef: RefObject<HTMLDivElement | null>;
}

const FORM_ID = "decide";

export function Decide({ desk, item, signals, active, onActive, onResolve, rule, decisionRef }: Props) {
  const isOpen = item.state === "open";
  return (
    <section className={styles.decide} aria-label="Your decision">
      <p className={styles.soft}>{reasonOf(item.review, rule)}</p>
      <State item={item} />
      <ul className={styles.signals}>
        {signals.map((signal) => (
          <li key={signal.key} className={styles.signal} data-active={(isOpen && signal.key === active) || undefined}>
            <Question objectId={item.review.object_id} signal={signal} />
            <LabelButtons
              signal={signal}
              value={item.labels[signal.key]}
              digits={signal.key === active}
              isDisabled={!isOpen}
              onChoose={(value) => {
                onActive(signal.key);
                desk.label(signal.key, value);
              }}
            />
          </li>
        ))}
      </ul>
      <form
        id={FORM_ID}
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          (document.activeElement as HTMLElement | null)?.blur();
          onResolve();
        }}
      >
        <div ref={decisionRef}>
          <TextField
            name="decision"
            label="Decision"
            placeholder={decisionOf(item.labels) || "follows from the labels"}
            value={item.decision}
            onChange={(decision) => desk.change({ decision })}
            maxLength={64}
            isDisabled={!isOpen}
            autoComplete="off"
          />
        </div>
        <TextField name="note" label="Note" value={item.note} onChange={(note) => desk.change({ note })} isDisabled={!isOpen} autoComplete="off" maxLength={2000} />
      </form>
      <div className={styles.acts} data-acts="">
        <Button type="submit" form={FORM_ID} kind="primary" aria-keyshortcuts="Enter" isDisabled={!isOpen}>
          Resolve
        </Button>
        <Button aria-keyshortcuts="s" isDisabled={!isOpen} onPress={() => desk.skip()}>
          Skip
        </Button>
        <span className={styles.keys} aria-hidden="true">
          <kbd>0</kbd>–<kbd>9</kbd> label <kbd>Enter</kbd> resolve <kbd>s</kbd> skip <kbd>u</kbd> undo <kbd>?</kbd> all keys
        </span>
      </div>
    </section>
  );
}

function reasonOf(review: Review, rule: string | undefined): string {
  if (review.reason === "audit") return "Drawn at random, to see what the rules miss.";
  if (review.reason === "person") return "Opened by a person.";
  return rule ? `Opened by the rule “${rule}”.` : "Opened by a rule.";
}

/** Whose the review is. */
function State({ item }: { item: Item }) {
  if (item.state === "open") {
    return <p className={styles.soft}>{item.review.claimed_until ? `Yours until ${absoluteTime(item.review.claimed_until)}, renewed while you are here.` : "Yours."}</p>;
  }
  if (item.state === "lost") return <Notice tone="warn">Somebody else has this review now. Go on with j.</Notice>;
  if (item.state === "skipped") return <Notice>You skipped it.</Notice>;
  return <Notice tone="good">{`Resolved: ${item.decision}. Press u to take it back, j to go on.`}</Notice>;
}

function Question({ objectId, signal }: { objectId: string; signal: Schemas["Signal"] }) {
  const object = useQuery(objectQuery(objectId)).data;
  const answer = object?.analysis.find(({ key }) => key === signal.key);
  return (
    <>
      <h3>
        <code>{signal.key}</code>
      </h3>
      <p className={styles.soft}>{textOf(signal.instructions)}</p>
      {answer ? <AnswerInline answer={answer} label={`The service says about ${signal.key}`} /> : <p className={styles.soft}>No answer yet.</p>}
    </>
  );
}
