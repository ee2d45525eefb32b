// What the quality of a signal is read from, and how a calibration is fitted and switched.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { queries } from "../../api/session";

export type Quality = Schemas["SignalQuality"];
export type Figure = Schemas["Figure"];

export interface Asked {
  signal: string;
  version?: number;
  costFalseYes: number;
  costFalseNo: number;
}

export const qualityQuery = (asked: Asked) =>
  queryOptions({
    queryKey: ["quality", asked.signal, asked.version, asked.costFalseYes, asked.costFalseNo],
    queryFn: ({ signal }) =>
      take(
        api.GET("/v1/signals/{key}/quality", {
          params: { path: { key: asked.signal }, query: { version: asked.version, cost_false_yes: asked.costFalseYes, cost_false_no: asked.costFalseNo } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

/** The versions of a signal, newest first. */
export const versionsQuery = (key: string) =>
  queryOptions({
    queryKey: ["signals", key, "versions"],
    queryFn: async () => (await take(api.GET("/v1/signals/{key}/versions", { params: { path: { key } } }))).versions.toSorted((one, other) => other.version - one.version),
  });

export const fitCalibration = (key: string): Promise<Schemas["Calibration"]> => take(api.POST("/v1/signals/{key}/calibrations", { params: { path: { key } } }));

/** Switches a calibration on, or off with null. */
export async function switchCalibration(key: string, id: string | null): Promise<Schemas["CalibrationSwitched"]> {
  const switched = await take(api.PUT("/v1/signals/{key}/calibration", { params: { path: { key } }, body: { id } }));
  await Promise.all(["signals", "quality", "object", "objects"].map((name) => queries.invalidateQueries({ queryKey: [name] })));
  return switched;
}

/** Which answers of a signal go to the second analyzer, and what they have cost today. */
export const escalationQuery = (key: string) =>
  queryOptions({
    queryKey: ["escalation", key],
    queryFn: ({ signal }) => take(api.GET("/v1/signals/{key}/escalation", { params: { path: { key } }, signal })),
  });

export async function setEscalation(key: string, body: Schemas["EscalationInput"]): Promise<Schemas["SignalEscalation"]> {
  const set = await take(api.PUT("/v1/signals/{key}/escalation", { params: { path: { key } }, body }));
  await queries.invalidateQueries({ queryKey: ["escalation", key] });
  return set;
}
