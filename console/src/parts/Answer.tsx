// Answers: a probability as a bar on a scale from 0 to 100 %, a choice and a score with all their probabilities.
import type { Schemas } from "../api/client";
import styles from "./Answer.module.css";
import { Badge } from "./Notice";
import { textOf } from "./text";
import { percent } from "./Values";

type AnswerValue = Schemas["AnswerValue"] & {
  /** What the analyzer said before calibration. */
  raw?: Omit<Schemas["AnswerValue"], "type">;
  escalated?: boolean;
  /** The model that answered, where that is said. */
  model?: string;
};

interface BarProps {
  /** From 0 to 1. */
  value: number;
  /** What the bar is about, for screen readers. */
  label: string;
  /** A threshold from 0 to 1, drawn as a line. */
  mark?: number;
}

/** A probability. All bars of a column have the same scale, so that they compare at a glance. */
export function ProbabilityBar({ value, label, mark }: BarProps) {
  return (
    <span className={styles.bar} role="img" aria-label={`${label}: ${percent(value)}`}>
      <svg className={styles.scale} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect className={styles.track} width="100" height="8" rx="1" />
        <rect className={styles.fill} width={Math.max(value * 100, 0.6)} height="8" rx="1" />
        {mark !== undefined && <rect className={styles.mark} x={mark * 100 - 0.5} width="1" height="8" />}
      </svg>
      <span className={styles.figure} aria-hidden="true">
        {percent(value)}
      </span>
    </span>
  );
}

/** The level texts of a score signal, by index. */
export function levelsOf(criteria: unknown): string[] {
  return Array.isArray(criteria) ? criteria.map(textOf) : [];
}

/** The value of an answer in a few words: "78 %", "browsing", "1.4 of 2". */
export function answerText(answer: AnswerValue): string {
  if (answer.noul !== undefined) return percent(answer.noul);
  if (answer.choice !== undefined) return answer.choice;
  if (answer.score !== undefined) {
    const top = Object.keys(answer.probabilities ?? {}).length - 1;
    return top > 0 ? `${answer.score.toFixed(2)} of ${top}` : answer.score.toFixed(2);
  }
  return "no answer";
}

/** One answer on one line, for tables. */
export function AnswerInline({ answer, label }: { answer: AnswerValue; label: string }) {
  if (answer.noul !== undefined) return <ProbabilityBar value={answer.noul} label={label} />;
  const likeliest = Math.max(0, ...Object.values(answer.probabilities ?? {}));
  return (
    <span className={styles.inline}>
      {answerText(answer)} {answer.choice !== undefined && <span className={styles.soft}>{percent(likeliest)}</span>}
    </span>
  );
}

/** One answer with everything that it says. `levels` names the levels of a score. */
export function AnswerView({ answer, label, levels = [] }: { answer: AnswerValue; label: string; levels?: string[] }) {
  const rows = Object.entries(answer.probabilities ?? {});
  return (
    <div className={styles.answer}>
      <div className={styles.head} hidden={answer.noul !== undefined && answer.confidence === undefined && !answer.raw && !answer.escalated}>
        {/* The bar of a yes/no answer says its value already. */}
        {answer.noul === undefined && <span className={styles.value}>{answerText(answer)}</span>}
        {answer.confidence !== undefined && <span className={styles.soft}>confidence {percent(answer.confidence)}</span>}
        {answer.raw && <Badge>calibrated</Badge>}
        {answer.escalated && <Badge>{answer.model ? `second analyzer: ${answer.model}` : "second analyzer"}</Badge>}
      </div>
      {answer.noul !== undefined && <ProbabilityBar value={answer.noul} label={label} />}
      {rows.length > 0 && (
        <ul className={styles.rows}>
          {rows.map(([name, value]) => {
            const text = answer.score !== undefined ? `${name} ${levels[Number(name)] ?? ""}`.trim() : name;
            return (
              <li key={name} data-chosen={name === answer.choice || undefined}>
                <span className={styles.name}>{text}</span>
                <ProbabilityBar value={value} label={text} />
              </li>
            );
          })}
        </ul>
      )}
      {answer.raw && <p className={styles.soft}>Before calibration: {answerText({ ...answer.raw, type: answer.type })}</p>}
    </div>
  );
}
