// What the screens of webhooks read and change.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { endpointsQuery } from "../../api/queries";
import { queries } from "../../api/session";

export type Endpoint = Schemas["WebhookEndpoint"];
export type EndpointSecret = Schemas["WebhookEndpointSecret"];
export type Delivery = Schemas["WebhookDelivery"];
export type DeliveryList = Schemas["WebhookDeliveryList"];
export type Status = Schemas["DeliveryStatus"];
export type WebhookHealth = Schemas["WebhookHealth"];

export const EVENTS = [
  { id: "analysis.completed", hint: "An asynchronous analysis has finished." },
  { id: "rule.triggered", hint: "A rule that names this endpoint fired." },
  { id: "review.opened", hint: "A review was opened in a queue." },
  { id: "review.resolved", hint: "A person resolved a review." },
] as const;

export interface Filter {
  status?: Status;
  endpointId?: string;
}

export const DELIVERIES = ["deliveries"];
const MOVING_MS = 3000;
const NEW_MS = 1000;
const NEW_FOR_MS = 60_000;
const PAGE = 50;
/** The first attempt of what was just made ends in a moment; one that failed is repeated after longer and longer. */
const isNew = (delivery: Delivery) => Date.now() - Date.parse(delivery.created_at) < NEW_FOR_MS;
function movingMs(deliveries: readonly Delivery[]): number | false {
  const moving = deliveries.filter(({ status }) => status === "delivering" || status === "pending");
  if (moving.some((delivery) => delivery.attempts === 0 && isNew(delivery))) return NEW_MS;
  return moving.length > 0 && (moving.some(({ attempts, status }) => status === "delivering" || attempts === 0) ? MOVING_MS : LISTED_MS);
}

/** Deliveries, newest first; asked again while one of them has not ended. */
export const deliveriesQuery = ({ status, endpointId }: Filter) =>
  infiniteQueryOptions({
    queryKey: [...DELIVERIES, status ?? "", endpointId ?? ""],
    queryFn: ({ pageParam, signal }) =>
      take(api.GET("/v1/webhook_deliveries", { params: { query: { status, endpoint_id: endpointId, limit: PAGE, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: (query) => movingMs(query.state.data?.pages.flatMap((page) => page.deliveries) ?? []),
  });

/** In a list, which may have many of them. */
const LISTED_MS = 15_000;

/** All endpoints with how they are doing; under the key of deliveries, since each changes that. Asked again while something waits for one that is called. */
export const doingQuery = queryOptions({
  queryKey: [...DELIVERIES, "health"],
  queryFn: async ({ signal }) => (await take(api.GET("/v1/webhooks", { params: { query: { include: "health" } }, signal }))).webhooks,
  refetchInterval: (query) => (query.state.data?.some(({ enabled, health }) => enabled && (health?.waiting ?? 0) > 0) ? LISTED_MS : false),
});

/**
 * How one endpoint is doing. Asked again while something waits for it, but not while it is disabled: until somebody enables it, what waits for it
 * stays.
 */
export const healthQuery = ({ id, enabled }: Pick<Endpoint, "id" | "enabled">) =>
  queryOptions({
    queryKey: [...DELIVERIES, "health", id],
    queryFn: ({ signal }) => take(api.GET("/v1/webhooks/{endpoint_id}/health", { params: { path: { endpoint_id: id } }, signal })),
    refetchInterval: (query) => (enabled && query.state.data && query.state.data.waiting > 0 ? MOVING_MS : false),
  });

const endpointsChanged = () => Promise.all([queries.invalidateQueries({ queryKey: endpointsQuery.queryKey }), queries.invalidateQueries({ queryKey: doingQuery.queryKey })]);
const deliveriesChanged = () => queries.invalidateQueries({ queryKey: DELIVERIES });

export async function createEndpoint(body: Schemas["WebhookEndpointCreate"]): Promise<EndpointSecret> {
  const created = await take(api.POST("/v1/webhooks", { body }));
  await endpointsChanged();
  return created;
}

export async function updateEndpoint(id: string, body: Schemas["WebhookEndpointUpdate"]): Promise<void> {
  await take(api.PATCH("/v1/webhooks/{endpoint_id}", { params: { path: { endpoint_id: id } }, body }));
  await Promise.all([endpointsChanged(), deliveriesChanged()]);
}

export async function deleteEndpoint(id: string): Promise<void> {
  await take(api.DELETE("/v1/webhooks/{endpoint_id}", { params: { path: { endpoint_id: id } } }));
  await Promise.all([endpointsChanged(), deliveriesChanged()]);
}

export const rotateSecret = (id: string, overlapHours: number): Promise<EndpointSecret> =>
  take(api.POST("/v1/webhooks/{endpoint_id}/rotate_secret", { params: { path: { endpoint_id: id } }, body: { overlap_hours: overlapHours } }));

export async function sendTest(id: string): Promise<Delivery> {
  const sent = await take(api.POST("/v1/webhooks/{endpoint_id}/test", { params: { path: { endpoint_id: id } } }));
  await deliveriesChanged();
  return sent;
}

export async function replayDelivery(id: string): Promise<void> {
  await replayOne(id);
  await deliveriesChanged();
}

const replayOne = (id: string) => take(api.POST("/v1/webhook_deliveries/{delivery_id}/replay", { params: { path: { delivery_id: id } } }));

const AT_ONCE = 4;

/** Replays every dead delivery, a page after another, and says how far it is. A replayed one leaves the list, so the first page is read again. */
export async function replayAllDead(endpointId: string | undefined, onProgress: (replayed: number) => void): Promise<number> {
  let replayed = 0;
  const seen = new Set<string>();
  for (;;) {
    const { deliveries } = await take(api.GET("/v1/webhook_deliveries", { params: { query: { status: "dead", endpoint_id: endpointId, limit: 200 } } }));
    // One that is dead again already was refused a second time: it is not tried a third.
    const due = deliveries.filter((delivery) => !seen.has(delivery.id));
    if (due.length === 0) break;
    for (let start = 0; start < due.length; start += AT_ONCE) {
      const batch = due.slice(start, start + AT_ONCE);
      for (const delivery of batch) seen.add(delivery.id);
      await Promise.all(batch.map((delivery) => replayOne(delivery.id)));
      replayed += batch.length;
      onProgress(replayed);
    }
  }
  await deliveriesChanged();
  return replayed;
}
