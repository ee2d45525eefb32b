// What the screens of one object read and write. The queue works on the same records.
import { infiniteQueryOptions, queryOptions, type InfiniteData, type QueryKey } from "@tanstack/react-query";

import { api, take, type Schemas } from "./client";
import { queries } from "./session";
import type { LabelValue } from "../parts/Label";

export type TimelineKind = Schemas["TimelineKind"];
export const KINDS: { id: TimelineKind; name: string }[] = [
  { id: "event", name: "Events" },
  { id: "analysis", name: "Analyses" },
  { id: "firing", name: "Firings" },
  { id: "delivery", name: "Deliveries" },
  { id: "label", name: "Labels" },
  { id: "review", name: "Reviews" },
];
const PAGE = 50;

const path = (objectId: string) => ({ object_id: objectId });

const labelsKey = (objectId: string) => ["object", objectId, "labels"];
const timelineKey = (objectId: string, kinds: readonly TimelineKind[]) => ["object", objectId, "timeline", kinds.join()];
type Timeline = Schemas["Timeline"];

export const objectQuery = (objectId: string) =>
  queryOptions({
    queryKey: ["object", objectId],
    queryFn: ({ signal }) => take(api.GET("/v1/objects/{object_id}", { params: { path: path(objectId) }, signal })),
  });

/** The same with the first page of its timeline, and whatever else the screen shows: what is not known of it yet comes with the object. */
const objectWith = (objectId: string, kinds: readonly TimelineKind[], others: Record<string, QueryKey>) =>
  queryOptions({
    ...objectQuery(objectId),
    queryFn: async ({ signal, client }) => {
      const parts: Record<string, QueryKey> = { ...others, timeline: timelineKey(objectId, kinds) };
      const missing = Object.entries(parts).filter(([, key]) => client.getQueryData(key) === undefined);
      const query = { include: missing.map(([part]) => part).join() || undefined, kinds: kinds.join() || undefined };
      const object = await take(api.GET("/v1/objects/{object_id}", { params: { path: path(objectId), query }, signal }));
      if (object.labels) client.setQueryData(labelsKey(objectId), object.labels);
      if (object.timeline) {
        client.setQueryData<InfiniteData<Timeline, string | undefined>>(timelineKey(objectId, kinds), { pages: [object.timeline], pageParams: [undefined] });
      }
      return object;
    },
  });

export const withTimelineQuery = (objectId: string, kinds: readonly TimelineKind[]) => objectWith(objectId, kinds, {});

/** An object with its labels and all of its timeline. */
export const wholeObjectQuery = (objectId: string) => objectWith(objectId, [], { labels: labelsKey(objectId) });

export const timelineQuery = (objectId: string, kinds: readonly TimelineKind[]) =>
  infiniteQueryOptions({
    queryKey: timelineKey(objectId, kinds),
    queryFn: ({ pageParam, signal }) =>
      take(api.GET("/v1/objects/{object_id}/timeline", { params: { path: path(objectId), query: { kinds: kinds.join() || undefined, limit: PAGE, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor,
  });

/** The latest analyses with an answer to the signal, newest first. */
export const answersQuery = (objectId: string, signal: string) =>
  queryOptions({
    queryKey: ["object", objectId, "answers", signal],
    queryFn: async () => (await take(api.GET("/v1/objects/{object_id}/answers", { params: { path: path(objectId), query: { signal, limit: 200 } } }))).analyses,
  });

/** The labels of an object, newest first. The first of a signal is the one that counts. */
export const objectLabelsQuery = (objectId: string) =>
  queryOptions({
    queryKey: labelsKey(objectId),
    queryFn: async ({ signal }) => (await take(api.GET("/v1/labels", { params: { query: { object_id: objectId, limit: 200 } }, signal }))).labels,
  });

export const stateQuery = (objectId: string) =>
  queryOptions({
    queryKey: ["object", objectId, "state"],
    queryFn: () => take(api.GET("/v1/objects/{object_id}/state", { params: { path: path(objectId) } })),
  });

/** Says what is true of the object. */
export async function putLabel(objectId: string, signal: string, value: LabelValue): Promise<Schemas["Label"]> {
  const label = await take(api.PUT("/v1/objects/{object_id}/labels/{signal}", { params: { path: { object_id: objectId, signal } }, body: { value } as Schemas["LabelInput"] }));
  await queries.invalidateQueries({ queryKey: ["object", objectId] });
  return label;
}

export async function removeLabel(label: Schemas["Label"]): Promise<void> {
  await take(api.DELETE("/v1/labels/{label_id}", { params: { path: { label_id: label.id } } }));
  await queries.invalidateQueries({ queryKey: ["object", label.object_id] });
}
