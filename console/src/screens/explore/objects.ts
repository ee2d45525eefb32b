// The objects that match a condition, a page after another.
import { infiniteQueryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";

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

const read = (q: string, sort: Sort, position: Position, signal?: AbortSignal): Promise<Page> =>
  take(api.GET("/v1/objects", { params: { query: { q: q || undefined, sort, limit: PAGE, ...position } }, signal }));

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

/** Reads what matches, up to a number, and says how far it is. */
export async function readMatches(q: string, sort: Sort, most: number, onProgress: (read: number) => void): Promise<Summary[]> {
  const found: Summary[] = [];
  let position: Position | undefined = {};
  for (let pages = 1; position && found.length < most; pages++) {
    const page: Page = await read(q, sort, position);
    found.push(...page.objects);
    onProgress(Math.min(found.length, most));
    position = following(q, page, pages);
  }
  return found.slice(0, most);
}
