// The playground: paste events or take an object's, ask, strike an event out and ask again. Nothing is recorded.
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { api, take } from "../../api/client";
import { explanationQuery, type Explanation as Explained } from "../../api/explanations";
import { useMay } from "../../api/session";
import { AnswerView, ProbabilityBar, answerText, levelsOf } from "../../parts/Answer";
import { Button } from "../../parts/Button";
import { Explanation, MovedMark } from "../../parts/Explanation";
import { TextField } from "../../parts/Field";
import { Foreign, ForeignInline } from "../../parts/Foreign";
import { Problem } from "../../parts/Form";
import { partsOfEvents } from "../../parts/moved";
import { Section } from "../../parts/Screen";
import { Empty } from "../../parts/States";
import { count, moneyOfMicros, plural } from "../../parts/Values";
import { ask, type Asked } from "./ask";
import { problemOf, type Draft } from "./definition";
import { ObjectDialog, type Chosen } from "./ObjectDialog";
import { linesOf, MOST_EVENTS, parseEvents, textOf, type Line } from "./playground-events";
import type { AnswerValue, Signal } from "./queries";
import styles from "./Signals.module.css";

interface Content {
  text: string;
  lines: Line[];
  objectType?: string;
  /** The object whose events were taken. */
  object?: { id: string; name: string };
  asked: Asked[];
}

const KEPT_ANSWERS = 6;

/** The state of a playground; held by the screen, so that a change of tabs does not lose it. */
export function usePlayground() {
  const state = useState<Content>(() => handedOver ?? { text: "", lines: [], asked: [] });
  useEffect(() => {
    handedOver = undefined;
  }, []);
  return state;
}

let handedOver: Content | undefined;

/** What was tried on a new signal goes on beside it once it is saved; its answers were of a draft. */
export function handOver([content]: ReturnType<typeof usePlayground>): void {
  handedOver = { ...content, asked: [] };
}

interface Props {
  /** The saved signal; none while a new one is written. */
  signal?: Signal;
  draft: Draft;
  state: ReturnType<typeof usePlayground>;
}

export function Playground(props: Props) {
  const may = useMay();
  return (
    <Section title="Playground" about="Try the question on events. Nothing is recorded and no rule fires; each question is charged like an analysis.">
      {may("playground") ? <Bench {...props} /> : <Empty icon="lock" title="Your role does not include the playground">An analyst, an admin or an owner can ask here.</Empty>}
    </Section>
  );
}

function Bench({ signal, draft, state: [content, setContent] }: Props) {
  const canExplain = useMay()("explain");
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const [choosing, setChoosing] = useState(false);
  const [explaining, setExplaining] = useState(false);
  const isExplained = explaining && signal !== undefined && content.object !== undefined;
  const explanation = useQuery({ ...explanationQuery(content.object?.id ?? "", signal?.key ?? ""), enabled: isExplained });
  const set = (part: Partial<Content>) => setContent((before) => ({ ...before, ...part }));

  const withPasted = (): Line[] => {
    const lines = [...content.lines, ...linesOf(parseEvents(content.text))];
    if (lines.length > MOST_EVENTS) throw new Error(`At most ${MOST_EVENTS} events can be asked about at once; these are ${lines.length}.`);
    return lines;
  };
  const attempt = async (act: () => void | Promise<void>) => {
    setProblem(undefined);
    setPending(true);
    try {
      await act();
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(false);
    }
  };
  const askNow = () =>
    attempt(async () => {
      const lines = withPasted();
      const read = lines.filter((line) => !line.isStruck);
      if (read.length === 0) throw new Error(lines.length === 0 ? "Add an event first." : "Every event is struck out; leave at least one.");
      const wrong = problemOf(draft);
      if (wrong) throw new Error(wrong);
      set({ lines, text: "" });
      const answer = await ask(signal, draft, read.map((line) => line.event), content.objectType);
      const over = read.length === lines.length ? plural(lines.length, "event") : `${read.length} of ${plural(lines.length, "event")}`;
      setContent((before) => ({ ...before, asked: [{ ...answer, over }, ...before.asked].slice(0, KEPT_ANSWERS) }));
    });
  const takeObject = async ({ id: objectId, name, type: objectType }: Chosen) => {
    const { events } = await take(api.GET("/v1/objects/{object_id}/events", { params: { path: { object_id: objectId } } }));
    // The list is newest first; a history is read oldest first.
    set({ lines: linesOf(events.slice(0, MOST_EVENTS).toReversed()), objectType, object: { id: objectId, name }, text: "" });
    setExplaining(false);
    setChoosing(false);
  };
  return (
    <div className={styles.stack}>
      <TextField name="events" label="Add events" hint="One message a line, or events as JSON." rows={3} value={content.text} onChange={(text) => set({ text })} />
      <div className={styles.row}>
        <Button isDisabled={content.text.trim() === ""} onPress={() => void attempt(() => set({ lines: withPasted(), text: "" }))}>
          Add
        </Button>
        <Button icon="explore" onPress={() => setChoosing(true)}>
          Take an object’s events…
        </Button>
        {content.lines.length > 0 && (
          <Button kind="quiet" onPress={() => set({ lines: [], objectType: undefined, object: undefined })}>
            Clear
          </Button>
        )}
      </div>
      {content.lines.length > 0 && <Events lines={content.lines} onChange={(lines) => set({ lines })} explanation={isExplained ? explanation.data : undefined} />}
      {problem !== undefined && <Problem problem={problem} />}
      <div className={styles.row}>
        <Button kind={signal ? "plain" : "primary"} icon="start" isPending={pending} isDisabled={content.lines.length === 0 && content.text.trim() === ""} onPress={() => void askNow()}>
          {content.asked.length > 0 ? "Ask again" : "Ask"}
        </Button>
        {signal && content.object && canExplain && (
          <Button aria-expanded={isExplained} onPress={() => setExplaining(!isExplained)}>
            What moved it
          </Button>
        )}
      </div>
      <Answers asked={content.asked} signal={signal} />
      {isExplained && content.object && <WhatMoved signal={signal} objectName={content.object.name} result={explanation} />}
      <ObjectDialog isOpen={choosing} onClose={() => setChoosing(false)} onChoose={takeObject} />
    </div>
  );
}

/** About the object as it is recorded, which the events above may differ from by now. */
function WhatMoved({ signal, objectName, result }: { signal: Signal; objectName: string; result: UseQueryResult<Explained> }) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    // Chromium answers with a promise, which React would take for what ends the effect.
    void section.current?.scrollIntoView({ block: "nearest" });
  }, [result.isFetching]);
  return (
    <section ref={section} className={styles.stack} aria-label={`What moved ${signal.key}`}>
      <h3>
        What moved <code>{signal.key}</code>
      </h3>
      <p className={styles.footnote}>
        About <ForeignInline text={objectName} /> as recorded, by the saved wording: neither a draft nor what is struck out counts here.
      </p>
      <Explanation result={result} />
    </section>
  );
}

interface EventsProps {
  lines: Line[];
  onChange: (lines: Line[]) => void;
  explanation: Explained | undefined;
}

function Events({ lines, onChange, explanation }: EventsProps) {
  const parts = explanation ? partsOfEvents(lines.map((line) => line.event), explanation.parts) : [];
  return (
    <ol className={styles.events} aria-label="Events to ask about">
      {lines.map((line, index) => (
        <li key={line.id} className={styles.event} data-struck={line.isStruck || undefined}>
          <span>{index + 1}</span>
          <div className={styles.said} tabIndex={textOf(line.event).length > 100 ? 0 : undefined}>
            <Foreign text={textOf(line.event)} />
            {parts[index] && explanation && <MovedMark moved={parts[index].moved} type={explanation.answer.type} />}
          </div>
          <Button
            kind="quiet"
            aria-pressed={line.isStruck}
            aria-label={`Strike out event ${index + 1}`}
            onPress={() => onChange(lines.map((other) => (other === line ? { ...line, isStruck: !line.isStruck } : other)))}
          >
            {line.isStruck ? "Read it again" : "Strike out"}
          </Button>
        </li>
      ))}
    </ol>
  );
}

/** What was asked, newest first: the newest with everything it says, the others in a line for comparison. */
function Answers({ asked, signal }: { asked: Asked[]; signal?: Signal }) {
  const [newest, ...before] = asked;
  if (!newest) return null;
  return (
    <ol className={styles.asked} aria-label="Answers">
      <li>
        <div role="status" className={newest.draft?.probabilities ? styles.stack : styles.pair}>
          {newest.saved && (
            <div>
              {newest.draft && <h4>Saved wording</h4>}
              <AnswerView answer={newest.saved} label="Saved wording" levels={levelsOf(signal?.criteria)} />
            </div>
          )}
          {newest.draft && (
            <div>
              <h4>Your draft</h4>
              <AnswerView answer={newest.draft} label="Your draft" levels={newest.draftLevels} />
            </div>
          )}
        </div>
        <p className={styles.footnote}>
          Over {newest.over}, by {newest.model}
          {newest.costMicros !== undefined && `, for ${moneyOfMicros(newest.costMicros)}`}
          {newest.tokens !== undefined && `, ${count(newest.tokens)} tokens read`}.{" "}
          {newest.draft && `A draft reads the events as plain data, without calibration: compare ${newest.saved ? "the two with each other" : "it with other drafts"}, not with stored answers.`}
        </p>
      </li>
      {before.map((one) => (
        <li key={one.id}>
          <p className={styles.footnote}>Before, over {one.over}</p>
          <div className={styles.pair}>
            {one.saved && <Short answer={one.saved} name={one.draft ? "Saved wording" : undefined} />}
            {one.draft && <Short answer={one.draft} name="Draft" />}
          </div>
        </li>
      ))}
    </ol>
  );
}

function Short({ answer, name }: { answer: AnswerValue; name?: string }) {
  return (
    <div>
      {name && <h4>{name}</h4>}
      {answer.noul === undefined ? answerText(answer) : <ProbabilityBar value={answer.noul} label={name ?? "Before"} />}
    </div>
  );
}
