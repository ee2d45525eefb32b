// What moved an answer: asked for one object and one signal, and charged, so never asked again by itself.
import { queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "./client";

export type Explanation = Schemas["Explanation"];
export type ExplainedPart = Schemas["ExplainedPart"];

export const explanationQuery = (objectId: string, signal: string) =>
  queryOptions({
    queryKey: ["explanation", objectId, signal],
    queryFn: ({ signal: aborted }) => take(api.POST("/v1/objects/{object_id}/explain", { params: { path: { object_id: objectId } }, body: { signal }, signal: aborted })),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    retry: false,
  });
