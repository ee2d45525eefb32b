// What the screens of rules read and change.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { rulesQuery } from "../../api/queries";
import { queries } from "../../api/session";

export type Rule = Schemas["Rule"];
export type Firing = Schemas["RuleFiring"];
export type Replay = Schemas["RuleReplay"];
export type ReplayRun = Schemas["RuleReplayRun"];
export type ActionType = Schemas["ActionType"];
export type RuleTest = Schemas["RuleTest"];

const FIRINGS_MS = 5000;

/** The newest firings of all rules: enough to say which rules are busy. */
export const newestFiringsQuery = queryOptions({
  queryKey: ["firings", "newest"],
  queryFn: () => take(api.GET("/v1/rule_firings", { params: { query: { limit: 200 } } })),
});

/** The firings of a rule, or of all rules, a page after another. */
export const firingsQuery = (ruleId?: string) =>
  infiniteQueryOptions({
    queryKey: ["firings", ruleId ?? "all"],
    queryFn: ({ pageParam, signal }) => take(api.GET("/v1/rule_firings", { params: { query: { rule_id: ruleId, limit: 50, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor,
    // Whoever looks at the newest ones sees the next come.
    refetchInterval: (query) => (query.state.data && query.state.data.pages.length > 1 ? false : FIRINGS_MS),
  });

const changed = () => queries.invalidateQueries({ queryKey: rulesQuery.queryKey });

export async function createRule(body: Schemas["RuleCreate"]): Promise<Rule> {
  const rule = await take(api.POST("/v1/rules", { body }));
  await changed();
  return rule;
}

export async function updateRule(id: string, body: Schemas["RuleUpdate"]): Promise<void> {
  await take(api.PATCH("/v1/rules/{rule_id}", { params: { path: { rule_id: id } }, body }));
  await changed();
}

export async function deleteRule(id: string): Promise<void> {
  await take(api.DELETE("/v1/rules/{rule_id}", { params: { path: { rule_id: id } } }));
  await changed();
}

/** Sends a test of an action, and waits for what comes of it. */
export const testAction = (name: string | undefined, type: ActionType, config: Schemas["ActionConfig"]): Promise<RuleTest> =>
  take(api.POST("/v1/rules/test", { body: { name, action_type: type, action_config: config as never } }));

/** Replays a rule. A long past is a run in the background, which has an id. */
export const replay = (when: string, cooldownSeconds: number, from: string | undefined): Promise<Replay | ReplayRun> =>
  take(api.POST("/v1/rules/replay", { body: { when, cooldown_seconds: cooldownSeconds, from } }));

export const isRun = (answer: Replay | ReplayRun): answer is ReplayRun => "id" in answer;

const RUNNING_MS = 1500;

export const replayRunQuery = (id: string) =>
  queryOptions({
    queryKey: ["replay", id],
    queryFn: () => take(api.GET("/v1/rules/replays/{replay_id}", { params: { path: { replay_id: id } } })),
    refetchInterval: (query) => (query.state.data?.status === "running" ? RUNNING_MS : false),
  });
