// Reviews: what waits for a person, and the claims on it.
import { queryOptions } from "@tanstack/react-query";

import { api, ApiError, take, type Schemas } from "./client";
import { notRead, readTogether } from "./include";
import { rulesQuery, signalsQuery } from "./queries";
import type { LabelValue } from "../parts/Label";

export type Review = Schemas["Review"];

export const queuesQuery = queryOptions({
  queryKey: ["reviews", "queues"],
  queryFn: async () => (await take(api.GET("/v1/reviews/queues"))).queues,
});

/** The queues with what their reviews are about, in one request. Later each is read again by itself. */
export const deskQuery = queryOptions({
  queryKey: ["desk"],
  queryFn: async ({ client, signal }) => {
    const about = { signals: signalsQuery.queryKey, rules: rulesQuery.queryKey };
    const query = { include: notRead(client, about) };
    const ask = () => take(api.GET("/v1/reviews/queues", { params: { query }, signal }));
    const list = await readTogether(client, { queues: queuesQuery.queryKey, ...about }, ask);
    if (!list) return null;
    client.setQueryData(queuesQuery.queryKey, list.queues);
    if (list.signals) client.setQueryData(about.signals, list.signals);
    if (list.rules) client.setQueryData(about.rules, list.rules);
    return null;
  },
  staleTime: "static",
  gcTime: 0,
});

const path = (id: string) => ({ params: { path: { review_id: id } } });

/** Claims the review that is worth most; nothing when none is left. */
export async function claimNext(queue: string): Promise<Review | undefined> {
  return (await take(api.POST("/v1/reviews/next", { body: { queue } }))) || undefined;
}

/** Claims one review; nothing when somebody else has it. */
export async function claim(id: string): Promise<Review | undefined> {
  return take(api.POST("/v1/reviews/{review_id}/claim", path(id))).catch((error: unknown) => {
    if (error instanceof ApiError && (error.status === 409 || error.status === 404)) return undefined;
    throw error;
  });
}

/** Reads a review, which renews the claim of whoever reads it. */
export const readReview = (id: string): Promise<Review> => take(api.GET("/v1/reviews/{review_id}", path(id)));

export const releaseReview = (id: string): Promise<Review> => take(api.POST("/v1/reviews/{review_id}/release", path(id)));

export const reopenReview = (id: string): Promise<Review> => take(api.POST("/v1/reviews/{review_id}/reopen", path(id)));

export const resolveReview = (id: string, body: { decision: string; note?: string; labels?: Record<string, LabelValue> }): Promise<Review> =>
  take(api.POST("/v1/reviews/{review_id}/resolve", { ...path(id), body: body as Schemas["ReviewResolve"] }));

/** The reviews of a queue that anybody may take, the most valuable first. */
export const openReviews = async (queue: string): Promise<Review[]> =>
  (await take(api.GET("/v1/reviews", { params: { query: { queue, status: "open", order: "value", limit: 50 } } }))).reviews;

/** Gives a claim back while the page goes away; the browser sends it even so. */
export function releaseOnLeave(id: string): void {
  void fetch(`/v1/reviews/${id}/release`, { method: "POST", keepalive: true, headers: { "X-Auspex-Session": "cookie" } }).catch(() => undefined);
}
