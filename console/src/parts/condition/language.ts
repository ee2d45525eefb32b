// The language of conditions for the editor: what to colour, and what can come next.
import type { CompletionContext, CompletionResult, Completion } from "@codemirror/autocomplete";
import { StreamLanguage, type StringStream } from "@codemirror/language";

import type { Signal } from "../Condition";

const WORD = /[\p{L}\p{N}_]+/u;
/** While this is typed, the options stay and are only narrowed down. */
const TYPED = /^[\p{L}\p{N}_."']*$/u;
const OPERATORS = [">=", "<=", "!=", "=", ">", "<"];

function token(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match(/^(["'])(?:(?!\1).)*\1?/)) return "string";
  if (stream.match(/^-?\d+(\.\d+)?[smhd]?\b/)) return "number";
  if (stream.match(/^(>=|<=|!=|==|=|>|<)/)) return "operator";
  if (stream.match(/^(and|or|not)\b/i)) return "keyword";
  if (stream.match(/^events(?=\s*\()/)) return "typeName";
  if (stream.match(/^[\p{L}\p{N}_]+/u)) return "variableName";
  stream.next();
  return "punctuation";
}

export const conditionLanguage = StreamLanguage.define({ name: "condition", token });

/** The options of a choice signal. */
export function optionsOf(signal: Signal): string[] {
  const criteria = signal.criteria as unknown;
  if (signal.type !== "choice" || criteria === null || typeof criteria !== "object") return [];
  return Array.isArray(criteria) ? criteria.map(String) : Object.keys(criteria);
}

const quoted = (option: string): string => (new RegExp(`^${WORD.source}$`, "u").test(option) ? option : JSON.stringify(option));

function valuesOf(signal: Signal): Completion[] {
  if (signal.type === "choice") return optionsOf(signal).map((option) => ({ label: option, apply: quoted(option), type: "constant" }));
  if (signal.type === "noul") return ["0.5", "0.65", "0.8"].map((label) => ({ label, type: "constant", detail: "probability of yes" }));
  const levels = Array.isArray(signal.criteria) ? (signal.criteria as unknown[]).map(String) : [];
  return levels.map((level, index) => ({ label: String(index), detail: level, type: "constant" }));
}

const TYPES: { [type in Signal["type"]]: string } = { noul: "yes or no", score: "score", choice: "choice" };

const FACTS: Completion[] = [
  { label: "events(", apply: "events(", detail: "NAME, WINDOW: how many events", type: "function" },
  { label: "age", detail: "since the object was first seen", type: "function" },
  { label: "type", detail: "the object's type", type: "function" },
];

/** What can come next at the cursor: a signal, an operator of that signal, a value of it, or a word that joins comparisons. */
export function completer(signals: () => readonly Signal[], use: "rule" | "query") {
  return (context: CompletionContext): CompletionResult | null => {
    const word = context.matchBefore(/[\p{L}\p{N}_."']*/u);
    const from = word?.from ?? context.pos;
    const before = context.state.doc.sliceString(0, from);
    const byKey = new Map(signals().map((signal) => [signal.key, signal]));

    const afterOperator = before.match(/([\p{L}\p{N}_]+)\s*(?:>=|<=|!=|==|=|>|<)\s*$/u);
    if (afterOperator) {
      const signal = byKey.get(afterOperator[1] ?? "");
      return signal ? { from, options: valuesOf(signal), validFor: TYPED } : null;
    }
    const afterName = before.match(/([\p{L}\p{N}_]+|\))\s+$/u)?.[1];
    const known = afterName === undefined ? undefined : byKey.get(afterName);
    const isName = known !== undefined || afterName === "age" || afterName === "type";
    const isValue = /(?:>=|<=|!=|==|=|>|<)\s*("[^"]*"|'[^']*'|[\p{L}\p{N}_.-]+)\s+$/u.test(before);
    if (isName && !isValue) {
      const operators = known?.type === "choice" || afterName === "type" ? ["=", "!="] : OPERATORS;
      return { from, options: operators.map((label) => ({ label, apply: `${label} `, type: "operator" })) };
    }
    if (isValue || (before.trimEnd().endsWith(")") && /\s$/.test(before))) {
      return { from, options: ["and", "or"].map((label) => ({ label, apply: `${label} `, type: "keyword" })), validFor: TYPED };
    }
    if (!context.explicit && word?.text === "") return null;
    const keys = signals().map((signal) => ({ label: signal.key, apply: `${signal.key} `, detail: TYPES[signal.type], type: "variable" }));
    const negation = { label: "not", apply: "not ", type: "keyword" };
    return { from, options: [...keys, negation, ...(use === "rule" ? FACTS : [])], validFor: TYPED };
  };
}
