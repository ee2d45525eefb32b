// The objects that match a condition, a page after another.
import { infiniteQueryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { ApiError } from "../../api/error";

export type Sort = "recent" | "flagged" | "trust";
export type Summary = Schemas["ObjectSummary"];

export const SORTS = [
  { id: "recent", label: "Last seen" },
  { id: "flagged", label: "Highest yes probability" },
  { id: "trust", label: "Highest score" },
];

const PAGE = 100;

/** Searches by answers page by offset, the others by cursor. */
interface Position {
  cursor?: string;
  offset?: number;
}

type Page = Schemas["ObjectList"];

/** A condition of which the service would skip a part is refused: a list that is about the rest only would look like an answer. */
const read = (q: string, sort: Sort, position: Position, signal?: AbortSignal): Promise<Page> =>
  take(api.GET("/v1/objects", { params: { query: { q: q || undefined, sort, limit: PAGE, strict: true, ...position } }, signal }));

function following(q: string, last: Page, pages: number): Position | undefined {
  if (last.next_cursor) return { cursor: last.next_cursor };
  return q && last.objects.length === PAGE ? { offset: pages * PAGE } : undefined;
}

export const objectsQuery = (q: string, sort: Sort) =>
  infiniteQueryOptions({
    queryKey: ["objects", q, sort],
    queryFn: ({ pageParam, signal }) => read(q, sort, pageParam, signal),
    initialPageParam: {} as Position,
    getNextPageParam: (last, pages) => following(q, last, pages.length),
    // What was found before stays until the next is there, so that nothing jumps.
    placeholderData: (previous) => previous,
  });

/** The pages of what matches. */
export async function* pagesOfMatches(q: string, sort: Sort, signal?: AbortSignal): AsyncGenerator<Page> {
  let position: Position | undefined = {};
  for (let pages = 1; position; pages++) {
    const at: Position = position;
    const page: Page = await patiently(() => read(q, sort, at, signal), signal);
    yield page;
    position = following(q, page, pages);
  }
}

/** How many match, as far as the service counts. */
export const countOfMatches = (q: string, signal?: AbortSignal): Promise<Schemas["MatchCount"]> =>
  patiently(() => take(api.GET("/v1/object_count", { params: { query: { q: q || undefined } }, signal })), signal);

/** Where the account has used up its requests, it waits as long as the service says. */
async function patiently<Answer>(ask: () => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * (error.retryAfterSeconds ?? 1)));
      signal?.throwIfAborted();
    }
  }
}

/** The ids of what matches, up to a number. */
export async function idsOfMatches(q: string, sort: Sort, most: number): Promise<string[]> {
  const found: string[] = [];
  for await (const page of pagesOfMatches(q, sort)) {
    found.push(...page.objects.map((row) => row.object_id));
    if (found.length >= most) break;
  }
  return found.slice(0, most);
}
