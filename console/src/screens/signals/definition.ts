// What a signal asks, as the form edits it and as the service takes it.
import type { Schemas } from "../../api/client";
import { textOf } from "../../parts/text";

export type SignalType = Schemas["SignalType"];

export interface Option {
  name: string;
  meaning: string;
}

/** A definition in the form: every type keeps its own criteria, so that changing the type back loses nothing. */
export interface Draft {
  type: SignalType;
  instructions: string;
  /** Instructions that are an object or an array are edited as JSON. */
  isJson: boolean;
  yes: string;
  no: string;
  levels: string[];
  options: Option[];
}

export const TYPES: { id: SignalType; label: string; hint: string }[] = [
  { id: "noul", label: "Yes or no", hint: "The probability that the answer is yes, from 0 to 100 %." },
  { id: "score", label: "Score", hint: "A position on a scale of levels that you describe, from the lowest to the highest." },
  { id: "choice", label: "Choice", hint: "One of several options that you describe." },
];

export const typeName = (type: SignalType): string => TYPES.find((entry) => entry.id === type)?.label ?? type;

export const MOST = 26;

export const emptyDraft: Draft = {
  type: "noul",
  instructions: "",
  isJson: false,
  yes: "",
  no: "",
  levels: ["", ""],
  options: [
    { name: "", meaning: "" },
    { name: "", meaning: "" },
  ],
};

interface Definition {
  type: SignalType;
  instructions?: unknown;
  criteria?: unknown;
}

/** The form's view of a definition. */
export function draftOf({ type, instructions, criteria }: Definition): Draft {
  const isJson = typeof instructions !== "string";
  const draft: Draft = { ...emptyDraft, type, isJson, instructions: isJson ? JSON.stringify(instructions, null, 2) : instructions };
  if (type === "score" && Array.isArray(criteria)) return { ...draft, levels: criteria.map(textOf) };
  const entries = criteria !== null && typeof criteria === "object" ? (criteria as Record<string, unknown>) : {};
  if (type === "choice") return { ...draft, options: Object.entries(entries).map(([name, meaning]) => ({ name, meaning: textOf(meaning) })) };
  return { ...draft, yes: textOf(entries.true), no: textOf(entries.false) };
}

/** Criteria as the service takes them; none where a yes/no signal describes neither side. */
function criteriaOf({ type, yes, no, levels, options }: Draft): Record<string, string> | string[] | undefined {
  if (type === "score") return levels;
  if (type === "choice") return Object.fromEntries(options.map((option) => [option.name.trim(), option.meaning]));
  const sides = { ...(yes.trim() && { true: yes }), ...(no.trim() && { false: no }) };
  return Object.keys(sides).length > 0 ? sides : undefined;
}

/** What is wrong before the service is asked: names of options that would fall together, or JSON that is none. */
export function problemOf(draft: Draft): string | undefined {
  if (draft.isJson) {
    try {
      JSON.parse(draft.instructions);
    } catch (error) {
      return `instructions: not valid JSON: ${(error as Error).message}`;
    }
  }
  if (draft.type !== "choice") return undefined;
  const names = draft.options.map((option) => option.name.trim());
  if (names.includes("")) return "criteria: every option needs a name";
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  return twice === undefined ? undefined : `criteria: the option ${twice} is there twice`;
}

/** The definition that the form stands for. */
export function definitionOf(draft: Draft): { type: SignalType; instructions: unknown; criteria?: unknown } {
  const instructions: unknown = draft.isJson ? JSON.parse(draft.instructions) : draft.instructions;
  const criteria = criteriaOf(draft);
  return { type: draft.type, instructions, ...(criteria !== undefined && { criteria }) };
}

/** Whether two definitions ask the same. */
export function isSame(one: Definition, other: Definition): boolean {
  const plain = ({ type, instructions, criteria }: Definition) => JSON.stringify([type, instructions, criteria ?? null]);
  return plain(one) === plain(other);
}

/** Whether a draft asks something else than the definition, or is not complete. */
export const isDraftChanged = (definition: Definition, draft: Draft): boolean => problemOf(draft) !== undefined || !isSame(definition, definitionOf(draft));

/** A definition as lines of text, for reading and for differences. */
export function linesOf({ type, instructions, criteria }: Definition): string[] {
  const asked = typeof instructions === "string" ? instructions : JSON.stringify(instructions, null, 2);
  const lines = [`Type: ${typeName(type)}`, ...asked.split("\n")];
  if (Array.isArray(criteria)) return [...lines, ...criteria.map((level, index) => `Level ${index}: ${textOf(level)}`)];
  if (criteria === null || typeof criteria !== "object") return lines;
  const name = (key: string) => (type === "noul" ? (key === "true" ? "Yes" : "No") : key);
  return [...lines, ...Object.entries(criteria).map(([key, meaning]) => `${name(key)}: ${textOf(meaning)}`)];
}
