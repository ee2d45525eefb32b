// What several screens read.
import { queryOptions } from "@tanstack/react-query";

import { api, take } from "./client";

export const signalsQuery = queryOptions({
  queryKey: ["signals"],
  queryFn: async () => (await take(api.GET("/v1/signals"))).signals,
  staleTime: 30_000,
});

export const rulesQuery = queryOptions({
  queryKey: ["rules"],
  queryFn: async () => (await take(api.GET("/v1/rules"))).rules,
});

export const endpointsQuery = queryOptions({
  queryKey: ["endpoints"],
  queryFn: async () => (await take(api.GET("/v1/webhooks"))).webhooks,
});

/** Analyses and money of the last 30 days. */
export const usageQuery = queryOptions({
  queryKey: ["usage", "30 days"],
  queryFn: () => take(api.GET("/v1/usage")),
  staleTime: 60_000,
});
