// The account's API keys.
import { queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import { queries } from "../../api/session";

export type ApiKey = Schemas["APIKey"];
export type KeySecret = Schemas["APIKeySecret"];

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: async () => (await take(api.GET("/v1/api_keys"))).api_keys,
});

const changed = () => queries.invalidateQueries({ queryKey: keysQuery.queryKey });

/** What a signed key can be limited to, and what that means. */
export const SCOPES = [
  { id: "ingest", hint: "send events" },
  { id: "read", hint: "read what the API has, other than members, sessions and the audit log" },
  { id: "write", hint: "change signals, rules, webhooks, keys and settings, and ask questions" },
  { id: "label", hint: "say what is true, and work on reviews" },
] as const;
export type Scope = (typeof SCOPES)[number]["id"];

/** Without scopes, the key may do all that keys may. */
export async function createKey(name: string, scopes?: readonly Scope[]): Promise<KeySecret> {
  const created = await take(api.POST("/v1/api_keys", { body: { name: name.trim() || undefined, scopes: scopes && [...scopes] } }));
  await changed();
  return created;
}

export async function rotateKey(id: string): Promise<KeySecret> {
  const rotated = await take(api.POST("/v1/api_keys/{key_id}/rotate", { params: { path: { key_id: id } } }));
  await changed();
  return rotated;
}

export async function revokeKey(id: string): Promise<void> {
  await take(api.DELETE("/v1/api_keys/{key_id}", { params: { path: { key_id: id } } }));
  await changed();
}

export async function updateKey(id: string, body: Schemas["APIKeyUpdate"]): Promise<void> {
  await take(api.PATCH("/v1/api_keys/{key_id}", { params: { path: { key_id: id } }, body }));
  await changed();
}
