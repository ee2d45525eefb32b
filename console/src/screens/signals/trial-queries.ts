// Trials of another wording.
import { queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { queries } from "../../api/session";

export type Trial = Schemas["Trial"];
export type TrialRequest = Schemas["TrialCreate"];
export type TrialPrice = Schemas["TrialEstimate"];

const listKey = (key: string) => ["signal", key, "trials"];
const of = (key: string) => ({ params: { path: { key } } });
const one = (key: string, id: string) => ({ params: { path: { key, trial_id: id } } });
const RUNNING_MS = 2000;

/** The trials of a signal, without their figures. */
export const trialsQuery = (key: string) =>
  queryOptions({
    queryKey: listKey(key),
    queryFn: async () => (await take(api.GET("/v1/signals/{key}/trials", of(key)))).trials,
    refetchInterval: (query) => (query.state.data?.some((trial) => trial.status === "running") ? RUNNING_MS : false),
  });

export const trialQuery = (key: string, id: string) =>
  queryOptions({
    queryKey: [...listKey(key), id],
    queryFn: () => take(api.GET("/v1/signals/{key}/trials/{trial_id}", one(key, id))),
    refetchInterval: (query) => (query.state.data?.status === "running" ? RUNNING_MS : false),
  });

/** One route starts a trial and says its price; which of the two answers comes is what was asked for. */
const post = (key: string, body: TrialRequest) => take(api.POST("/v1/signals/{key}/trials", { ...of(key), body }));

export const priceOfTrial = async (key: string, trial: TrialRequest): Promise<TrialPrice> => (await post(key, { ...trial, dry_run: true })) as TrialPrice;

export async function startTrial(key: string, trial: TrialRequest): Promise<Trial> {
  const { trial: started } = (await post(key, trial)) as Schemas["TrialStarted"];
  await queries.invalidateQueries({ queryKey: listKey(key) });
  return started;
}

export async function cancelTrial(key: string, id: string): Promise<void> {
  await take(api.DELETE("/v1/signals/{key}/trials/{trial_id}", one(key, id)));
  await queries.invalidateQueries({ queryKey: listKey(key) });
}

export async function adoptTrial(key: string, id: string): Promise<void> {
  await take(api.POST("/v1/signals/{key}/trials/{trial_id}/adopt", one(key, id)));
  await Promise.all([queries.invalidateQueries({ queryKey: signalsQuery.queryKey }), queries.invalidateQueries({ queryKey: ["signal", key] })]);
}
