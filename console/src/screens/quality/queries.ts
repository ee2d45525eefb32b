// What the quality of a signal is read from, and how a calibration is fitted and switched.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { notRead } from "../../api/include";
import { queries } from "../../api/session";

export type Quality = Schemas["SignalQuality"];
export type Figure = Schemas["Figure"];

export interface Asked {
  signal: string;
  version?: number;
  costFalseYes: number;
  costFalseNo: number;
  /** Whether the escalation comes along. */
  withEscalation: boolean;
}

const versionsKey = (key: string) => ["signals", key, "versions"];
const escalationKey = (key: string) => ["escalation", key];
const newestFirst = (versions: readonly Schemas["SignalVersion"][]) => versions.toSorted((one, other) => other.version - one.version);

export const qualityQuery = (asked: Asked) =>
  queryOptions({
    queryKey: ["quality", asked.signal, asked.version, asked.costFalseYes, asked.costFalseNo],
    queryFn: async ({ signal, client }) => {
      const parts = { versions: versionsKey(asked.signal), escalation: escalationKey(asked.signal) };
      const include = notRead(client, asked.withEscalation ? parts : { versions: parts.versions });
      const quality = await take(
        api.GET("/v1/signals/{key}/quality", {
          params: { path: { key: asked.signal }, query: { version: asked.version, cost_false_yes: asked.costFalseYes, cost_false_no: asked.costFalseNo, include } },
          signal,
        }),
      );
      if (quality.versions) client.setQueryData(parts.versions, newestFirst(quality.versions));
      if (quality.escalation) client.setQueryData(parts.escalation, quality.escalation);
      return quality;
    },
    placeholderData: keepPreviousData,
  });

/** The versions of a signal, newest first. */
export const versionsQuery = (key: string) =>
  queryOptions({
    queryKey: versionsKey(key),
    queryFn: async () => newestFirst((await take(api.GET("/v1/signals/{key}/versions", { params: { path: { key } } }))).versions),
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
    queryKey: escalationKey(key),
    queryFn: ({ signal }) => take(api.GET("/v1/signals/{key}/escalation", { params: { path: { key } }, signal })),
  });

export async function setEscalation(key: string, body: Schemas["EscalationInput"]): Promise<Schemas["SignalEscalation"]> {
  const set = await take(api.PUT("/v1/signals/{key}/escalation", { params: { path: { key } }, body }));
  await queries.invalidateQueries({ queryKey: escalationKey(key) });
  return set;
}
