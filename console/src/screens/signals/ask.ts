// Asks a wording about events. The saved wording is asked as in production; a draft is asked beside it, both in the same way.
import { api, take } from "../../api/client";
import type { Draft } from "./definition";
import { definitionOf, isSame } from "./definition";
import type { EventInput, AnswerValue, Signal } from "./queries";

export interface Asked {
  id: number;
  /** "3 events", "2 of 3 events". */
  over: string;
  model: string;
  /** What it cost, in micro-dollars, where the service says so. */
  costMicros?: number;
  tokens?: number;
  saved?: AnswerValue;
  draft?: AnswerValue;
  /** The levels of the draft, and of the saved wording, if they are scores. */
  draftLevels: string[];
}

let next = 0;

async function askSaved(signal: Signal, events: EventInput[], objectType: string | undefined): Promise<Omit<Asked, "over">> {
  const verdict = await take(api.POST("/v1/playground", { body: { events, object_type: objectType, signals: [signal.key] } }));
  const saved = verdict.answers.find((answer) => answer.signal === signal.key);
  if (!saved) throw new Error(verdict.reason ?? "the service did not answer this signal");
  return { id: next++, model: verdict.model, costMicros: verdict.cost_micros, saved, draftLevels: [] };
}

/** Two wordings are only comparable when they read the same thing in the same way, so both go into one request. */
async function askBoth(signal: Signal | undefined, draft: Draft, events: EventInput[], objectType: string | undefined): Promise<Omit<Asked, "over">> {
  const questions = { ...(signal && { saved: { type: signal.type, instructions: signal.instructions, criteria: signal.criteria } }), draft: definitionOf(draft) };
  const state = { object_type: objectType ?? "object", events };
  const answer = await take(api.POST("/v1/systemone", { body: { state, questions } as never }));
  const { input_tokens, output_tokens } = answer.usage;
  const levels = draft.type === "score" ? draft.levels : [];
  return { id: next++, model: answer.model, tokens: input_tokens + output_tokens, saved: answer.answers.saved, draft: answer.answers.draft, draftLevels: levels };
}

export function ask(signal: Signal | undefined, draft: Draft, events: EventInput[], objectType: string | undefined): Promise<Omit<Asked, "over">> {
  return signal?.enabled && isSame(signal, definitionOf(draft)) ? askSaved(signal, events, objectType) : askBoth(signal, draft, events, objectType);
}
