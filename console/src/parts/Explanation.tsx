// What moved an answer: the parts of the history, the largest first, with bars to both sides of a common middle. It says how much
// the answer differs without a part, never why.
import type { UseQueryResult } from "@tanstack/react-query";

import type { Schemas } from "../api/client";
import { answerText } from "./Answer";
import { Button } from "./Button";
import styles from "./Explanation.module.css";
import { Foreign } from "./Foreign";
import { Icon } from "./Icon";
import { movedText } from "./moved";
import { Empty, Failed, Skeleton } from "./States";
import { moneyOfMicros, percent, Time } from "./Values";

type Explained = Schemas["Explanation"];
type Part = Schemas["ExplainedPart"];
type Type = Schemas["SignalType"];

const METHODS: { [method in Schemas["ExplainMethod"]]: string } = {
  unread: "The model read the history once, and then the question again for each part without seeing that part.",
  left_out: "The question was asked again without each of at most 12 parts, the newest and the longest first.",
};

const KINDS: { [kind in Schemas["PartKind"]]: string } = { event: "Event", message: "Message", summary: "Summary of older events" };

interface Props {
  result: UseQueryResult<Explained>;
  /** Goes to the event of a part, where the screen shows it. */
  onShow?: (part: Part) => void;
}

export function Explanation({ result, onShow }: Props) {
  if (result.isFetching) return <Skeleton lines={5} label="Asking again without each part" />;
  if (result.error) return <Failed error={result.error} retry={() => void result.refetch()} />;
  if (!result.data) return null;
  const explanation = result.data;
  return (
    <div className={styles.explanation}>
      <p className={styles.soft}>
        {`The answer is ${answerWithShare(explanation.answer)}. `}
        {METHODS[explanation.method]}
        {` It cost ${moneyOfMicros(explanation.cost_micros)}, asked `}
        <Time at={new Date(result.dataUpdatedAt).toISOString()} />.
      </p>
      {explanation.parts.length === 0 ? <Empty icon="signals" title="There is no part that could be left out" /> : <Parts explanation={explanation} onShow={onShow} />}
      <div className={styles.foot}>
        <p className={styles.soft}>This is what moved the answer, not why. Parts that say the same move it little each: without one, the other is still read.</p>
        <Button kind="quiet" onPress={() => void result.refetch()}>
          Ask again
        </Button>
      </div>
    </div>
  );
}

/** What the parts move: of a choice, the probability of the option chosen. */
function answerWithShare(answer: Schemas["Answer"]): string {
  const share = answer.choice === undefined ? undefined : answer.probabilities?.[answer.choice];
  return share === undefined ? answerText(answer) : `${answerText(answer)}, with ${percent(share)}, which is what the parts moved`;
}

function Parts({ explanation, onShow }: { explanation: Explained; onShow?: (part: Part) => void }) {
  const { type } = explanation.answer;
  const largest = Math.max(0.001, ...explanation.parts.map((part) => Math.abs(part.moved)));
  return (
    <>
      <div className={styles.sides} aria-hidden="true">
        <span>lowered it</span>
        <span>raised it</span>
      </div>
      <ol className={styles.parts} aria-label="Parts that moved the answer">
        {explanation.parts.map((part, index) => (
          <li key={`${part.seq ?? "summary"} ${index}`} className={styles.part}>
            <div className={styles.amount}>
              <svg className={styles.bar} viewBox="-50 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect className={styles.track} x="-50" width="100" height="10" />
                <rect className={part.moved < 0 ? styles.down : styles.up} x={Math.min(0, (part.moved / largest) * 50)} width={Math.abs((part.moved / largest) * 50)} height="10" />
                <line className={styles.middle} x1="0" x2="0" y1="-2" y2="12" />
              </svg>
              <MovedMark moved={part.moved} type={type} />
            </div>
            <div className={styles.said}>
              <Foreign text={part.excerpt} />
              <span className={styles.kind}>
                {KINDS[part.kind]}
                {onShow && part.seq !== undefined && (
                  <Button kind="quiet" aria-label={`Show part ${index + 1} in the timeline`} onPress={() => onShow(part)}>
                    In the timeline
                  </Button>
                )}
              </span>
            </div>
          </li>
        ))}
      </ol>
    </>
  );
}

const DIRECTIONS = {
  up: { icon: "up", word: "raised it: " },
  down: { icon: "down", word: "lowered it: " },
  none: { icon: undefined, word: "did not move it: " },
} as const;

/** The amount beside an event or a part: an arrow, a sign and a colour say the direction. */
export function MovedMark({ moved, type }: { moved: number; type: Type }) {
  const text = movedText(moved, type);
  const direction = text.startsWith("±") ? "none" : moved < 0 ? "down" : "up";
  const { icon, word } = DIRECTIONS[direction];
  return (
    <span className={styles.mark} data-direction={direction}>
      {icon && <Icon name={icon} size={12} />}
      <span className="unseen">{word}</span>
      {text}
    </span>
  );
}
