// What several screens read.
import { queryOptions } from "@tanstack/react-query";

import { api, take } from "./client";

export const signalsQuery = queryOptions({
  queryKey: ["signals"],
  queryFn: async () => (await take(api.GET("/v1/signals"))).signals,
  staleTime: 30_000,
});
