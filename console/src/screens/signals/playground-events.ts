// The events that the playground reads: from pasted text, from JSON, or from an object.
import type { EventInput } from "./queries";

/** The service reads at most this many at once. */
export const MOST_EVENTS = 50;

export interface Line {
  id: number;
  event: EventInput;
  isStruck: boolean;
}

let next = 0;

export const linesOf = (events: readonly EventInput[]): Line[] => events.map((event) => ({ id: next++, event, isStruck: false }));

function isEvent(value: unknown): value is EventInput {
  return value !== null && typeof value === "object" && ["event", "message"].includes((value as { type?: unknown }).type as string);
}

/** Events of a pasted text: JSON as the API takes it, else one message a line. Throws a sentence if it is neither. */
export function parseEvents(text: string): EventInput[] {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) {
    const lines = trimmed.split("\n").map((line) => line.trim());
    return lines.filter(Boolean).map((content) => ({ type: "message", content }));
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(trimmed);
  } catch (error) {
    throw new Error(`This starts like JSON but is none: ${(error as Error).message}.`);
  }
  const inner = (parsed as { events?: unknown }).events ?? parsed;
  const events = Array.isArray(inner) ? inner : [inner];
  if (!events.every(isEvent)) throw new Error('Every event needs a "type": "event" or "message".');
  return events;
}

/** An event in one or two lines. */
export function textOf({ type, name, content, metadata }: EventInput): string {
  const extra = metadata && Object.keys(metadata).length > 0 ? JSON.stringify(metadata) : undefined;
  return [type === "message" ? content : (name ?? "event"), type === "message" ? undefined : content, extra].filter(Boolean).join(" ");
}
