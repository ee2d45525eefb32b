// Trials of another wording. The OpenAPI document does not have their routes yet.
import { queryOptions } from "@tanstack/react-query";

import { request, type Schemas } from "../../api/client";
import { signalsQuery } from "../../api/queries";
import { queries } from "../../api/session";
import { isNotOffered } from "../../parts/NotOffered";
import type { Judgement, Signal } from "./queries";

type Quality = Schemas["SignalQuality"];
type Figure = Schemas["Figure"];

export interface Flip {
  object_id: string;
  present: Judgement;
  proposed: Judgement;
}

/** The list has trials without their figures. */
export interface Trial {
  id: string;
  status: "running" | "done" | "cancelled";
  created_at: string;
  instructions?: unknown;
  criteria?: unknown;
  total: number;
  completed: number;
  cost_micros: number;
  /** The share of objects whose answer stays on the same side. */
  agreement?: Figure;
  present?: Quality;
  proposed?: Quality;
  /** Proposed minus present, each with a 95 % interval. */
  difference?: { accuracy?: Figure; auc?: Figure; brier?: Figure };
  flips?: Flip[];
}

export interface TrialRequest {
  instructions?: unknown;
  criteria?: unknown;
  over: "labelled" | "recent" | { q: string };
  limit?: number;
}

export interface TrialPrice {
  objects: number;
  estimated_cost_micros: number;
}

const base = (key: string) => `/v1/signals/${encodeURIComponent(key)}/trials`;
const listKey = (key: string) => ["signal", key, "trials"];
const RUNNING_MS = 2000;

export const trialsQuery = (key: string) =>
  queryOptions({
    queryKey: listKey(key),
    queryFn: async () => (await request<{ trials: Trial[] }>("GET", base(key))).trials,
    refetchInterval: (query) => (query.state.data?.some((trial) => trial.status === "running") ? RUNNING_MS : false),
    retry: (failures, error) => !isNotOffered(error) && failures < 2,
  });

export const trialQuery = (key: string, id: string) =>
  queryOptions({
    queryKey: [...listKey(key), id],
    queryFn: () => request<Trial>("GET", `${base(key)}/${id}`),
    refetchInterval: (query) => (query.state.data?.status === "running" ? RUNNING_MS : false),
  });

export const priceOfTrial = (key: string, trial: TrialRequest) => request<TrialPrice>("POST", base(key), { ...trial, dry_run: true });

export async function startTrial(key: string, trial: TrialRequest): Promise<Trial> {
  const { trial: started } = await request<{ trial: Trial }>("POST", base(key), trial);
  await queries.invalidateQueries({ queryKey: listKey(key) });
  return started;
}

export async function cancelTrial(key: string, id: string): Promise<void> {
  await request("DELETE", `${base(key)}/${id}`);
  await queries.invalidateQueries({ queryKey: listKey(key) });
}

export async function adoptTrial(key: string, id: string): Promise<void> {
  await request<Signal>("POST", `${base(key)}/${id}/adopt`);
  await Promise.all([queries.invalidateQueries({ queryKey: signalsQuery.queryKey }), queries.invalidateQueries({ queryKey: ["signal", key] })]);
}
