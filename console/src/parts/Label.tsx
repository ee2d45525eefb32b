// Labels: the values that a signal can have, and the buttons by which a person says which is true.
import type { Schemas } from "../api/client";
import { Button as AriaButton, type PressEvent } from "react-aria-components/Button";

import styles from "./Label.module.css";
import { textOf } from "./text";

export type LabelValue = boolean | number | string;
type Signal = Pick<Schemas["Signal"], "key" | "type" | "criteria">;

export interface LabelOption {
  value: LabelValue;
  name: string;
  /** The criterion of the option, where it has one. */
  hint?: string;
}

/** Every value that a signal can have, in the order of its definition. */
export function labelOptions(signal: Signal): LabelOption[] {
  const criteria = signal.criteria;
  if (signal.type === "score") {
    return Array.isArray(criteria) ? criteria.map((level, index) => ({ value: index, name: `${index} ${levelName(textOf(level))}`, hint: textOf(level) })) : [];
  }
  const texts = (criteria && typeof criteria === "object" && !Array.isArray(criteria) ? criteria : {}) as Record<string, unknown>;
  const hint = (name: string) => (typeof texts[name] === "string" ? texts[name] : undefined);
  if (signal.type === "noul") {
    return [
      { value: true, name: "Yes", hint: hint("true") },
      { value: false, name: "No", hint: hint("false") },
    ];
  }
  return Array.isArray(criteria) ? criteria.map((name) => ({ value: String(name), name: String(name) })) : Object.keys(texts).map((name) => ({ value: name, name, hint: hint(name) }));
}

/** The levels of a score in a word or two, by index. */
export const levelNames = (criteria: unknown): string[] => (Array.isArray(criteria) ? criteria.map((level) => levelName(textOf(level))) : []);

/** "High risk: harm to others" is named by what stands before the colon. */
function levelName(level: string): string {
  const head = level.split(/[:.,;]/)[0] ?? level;
  return head.length > 28 ? `${head.slice(0, 27)}…` : head;
}

/** A label's value in words, also for a signal that has changed since. */
export function labelText(value: LabelValue, signal?: Signal): string {
  const option = signal && labelOptions(signal).find((candidate) => candidate.value === value);
  if (option) return option.name;
  return value === true ? "Yes" : value === false ? "No" : String(value);
}

/** The digit that chooses the option at an index: the level itself of a score, else counted from 1. */
const digitOf = (signal: Signal, index: number): number => (signal.type === "score" ? index : index + 1);

/** The option that a digit chooses. */
export const optionOfDigit = (signal: Signal, digit: number): LabelOption | undefined => labelOptions(signal).find((_, index) => digitOf(signal, index) === digit);

interface Props {
  signal: Signal;
  value: LabelValue | undefined;
  /** With the value that it has already: to take the label back. */
  onChoose: (value: LabelValue) => void;
  /** Shows the digit of each option and names it as its shortcut. */
  digits?: boolean;
  isDisabled?: boolean;
}

/** One button a value; the one that is true is pressed. */
export function LabelButtons({ signal, value, onChoose, digits = false, isDisabled }: Props) {
  const choose = (chosen: LabelValue, event: PressEvent) => {
    onChoose(chosen);
    // After a click the keys belong to the screen again; who came by Tab stays.
    if (digits && event.pointerType !== "keyboard" && event.pointerType !== "virtual") (event.target as HTMLElement).blur();
  };
  return (
    <div className={styles.options} role="group" aria-label={`Label ${signal.key}`}>
      {labelOptions(signal).map((option, index) => {
        const digit = digits && digitOf(signal, index) <= 9 ? String(digitOf(signal, index)) : undefined;
        return (
          <AriaButton
            key={String(option.value)}
            className={styles.option}
            aria-pressed={option.value === value}
            aria-keyshortcuts={digit}
            isDisabled={isDisabled}
            onPress={(event) => choose(option.value, event)}
          >
            {digit && <kbd className={styles.digit}>{digit}</kbd>}
            {/* The level of a score is its key already. */}
            {digit && signal.type === "score" ? option.name.slice(digit.length + 1) : option.name}
          </AriaButton>
        );
      })}
    </div>
  );
}
