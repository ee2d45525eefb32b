// Finds the events that an explanation is about. Lists of events do not say an event's `seq`, so a part is found by its kind and
// its text; parts of equal text are told apart by their order of arrival.
import type { Schemas } from "../api/client";

type Part = Schemas["ExplainedPart"];
type EventText = Pick<Schemas["EventInput"], "type" | "name" | "content" | "metadata">;

/** The service writes an event as one line and replaces what could break it: only letters and digits are sure to be the same. */
const bare = (text: string): string => text.replaceAll(/[^\p{L}\p{N}]+/gu, "");

/** Excerpts are cut at 500 characters. */
const CUT = 500;

interface Candidate {
  index: number;
  type: string;
  /** Name and text. */
  said: string;
  /** Metadata too. */
  all: string;
}

function candidateOf({ type, name, content, metadata }: EventText, index: number): Candidate {
  const said = bare([name, content].filter(Boolean).join(" "));
  return { index, type, said, all: said + bare(metadata ? JSON.stringify(metadata) : "") };
}

function isSame(part: Part, { type, said, all }: Candidate, exact: boolean): boolean {
  if (type !== part.kind) return false;
  const excerpt = bare(part.excerpt);
  const isCut = [...part.excerpt].length >= CUT || part.excerpt.endsWith("…");
  if (exact) return isCut ? excerpt !== "" && all.startsWith(excerpt) : all === excerpt;
  // Metadata may be written in another way than here, so its text decides only between events that say the same.
  return said !== "" && (excerpt.startsWith(said) || (isCut && said.startsWith(excerpt)));
}

/** For each event, oldest first, the part of the explanation that it is. */
export function partsOfEvents(events: readonly EventText[], parts: readonly Part[]): (Part | undefined)[] {
  const found: (Part | undefined)[] = events.map(() => undefined);
  // Newest first on both sides: what the service has read are the newest events.
  const candidates = events.map(candidateOf).reverse();
  let left = parts.filter((part) => part.seq !== undefined).toSorted((one, other) => (other.seq ?? 0) - (one.seq ?? 0));
  for (const exact of [true, false]) {
    left = left.filter((part) => {
      const candidate = candidates.find((one) => found[one.index] === undefined && isSame(part, one, exact));
      if (candidate) found[candidate.index] = part;
      return !candidate;
    });
  }
  return found;
}

/** How much a part moved an answer, in the answer's own unit: percentage points, or levels of a score. */
export function movedText(moved: number, type: Schemas["SignalType"]): string {
  const sign = moved < 0 ? "−" : "+";
  const size = Math.abs(moved);
  if (type === "score") return size < 0.005 ? "±0 levels" : `${sign}${size.toFixed(2)} levels`;
  return size < 0.0005 ? "±0 points" : `${sign}${(size * 100).toFixed(1)} points`;
}
