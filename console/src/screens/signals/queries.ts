// What the screens of signals read and change.
import { queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { queries } from "../../api/session";

export type Signal = Schemas["Signal"];
export type Version = Schemas["SignalVersion"];
export type AnswerValue = Schemas["AnswerValue"];
export type EventInput = Schemas["EventInput"];

const path = (key: string) => ({ params: { path: { key } } });

export const distributionQuery = (key: string) =>
  queryOptions({ queryKey: ["signal", key, "distribution"], queryFn: () => take(api.GET("/v1/signals/{key}/distribution", path(key))), staleTime: 60_000 });

export const qualityQuery = (key: string) =>
  queryOptions({ queryKey: ["signal", key, "quality"], queryFn: () => take(api.GET("/v1/signals/{key}/quality", path(key))), staleTime: 60_000 });

export const versionsQuery = (key: string) =>
  queryOptions({ queryKey: ["signal", key, "versions"], queryFn: async () => (await take(api.GET("/v1/signals/{key}/versions", path(key)))).versions });

const RUNNING_MS = 2000;

export const backfillQuery = (key: string) =>
  queryOptions({
    queryKey: ["signal", key, "backfill"],
    queryFn: () => take(api.GET("/v1/signals/{key}/backfill", path(key))),
    refetchInterval: (query) => (query.state.data?.backfill?.status === "running" ? RUNNING_MS : false),
  });

async function changed(key: string): Promise<void> {
  await Promise.all([queries.invalidateQueries({ queryKey: signalsQuery.queryKey }), queries.invalidateQueries({ queryKey: ["signal", key] })]);
}

export async function putSignal(key: string, body: { type: Schemas["SignalType"]; instructions: unknown; criteria?: unknown; enabled?: boolean }): Promise<Signal> {
  const signal = await take(api.PUT("/v1/signals/{key}", { ...path(key), body: body as Schemas["SignalInput"] }));
  await changed(key);
  return signal;
}

export async function deleteSignal(key: string): Promise<void> {
  await take(api.DELETE("/v1/signals/{key}", path(key)));
  await queries.invalidateQueries({ queryKey: signalsQuery.queryKey });
  queries.removeQueries({ queryKey: ["signal", key] });
}

export async function restoreVersion(key: string, version: number): Promise<void> {
  await take(api.POST("/v1/signals/{key}/versions/{version}/restore", { params: { path: { key, version } } }));
  await changed(key);
}

export async function startBackfill(key: string): Promise<void> {
  await take(api.POST("/v1/signals/{key}/backfill", path(key)));
  await queries.invalidateQueries({ queryKey: ["signal", key, "backfill"] });
}
