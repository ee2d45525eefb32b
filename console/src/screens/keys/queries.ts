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

export type Kind = Schemas["KeyKind"];
export type Scope = Schemas["Scope"];

export const KINDS: readonly { id: Kind; label: string; hint: string }[] = [
  { id: "signed", label: "Signed", hint: "Its secret signs each request and is never sent. For your programs, the clients and the command line." },
  { id: "bearer", label: "Bearer", hint: "Its secret is sent with each request. For agents and libraries that cannot sign; it opens nothing but what is chosen here." },
];

interface ScopeChoice {
  id: Scope;
  hint: string;
  /** Only together with this one. */
  beside?: Scope;
}

/** What a key of each kind can be limited to, and what that means. */
export const SCOPES: Record<Kind, readonly ScopeChoice[]> = {
  signed: [
    { id: "ingest", hint: "send events" },
    { id: "read", hint: "read what the API has, other than members, sessions and the audit log" },
    { id: "write", hint: "change signals, rules, webhooks, keys and settings, and ask questions" },
    { id: "label", hint: "say what is true, and work on reviews" },
  ],
  bearer: [
    { id: "moderate", hint: "judge texts, in the shapes of OpenAI’s moderation and of the Perspective API" },
    { id: "mcp", hint: "let an agent look into the account, at /mcp" },
    { id: "write", hint: "let the agent change signals, and write rules in shadow", beside: "mcp" },
    { id: "label", hint: "let the agent say what is true", beside: "mcp" },
  ],
};

/** Without scopes, a signed key may do all that keys may. */
export async function createKey(name: string, kind: Kind = "signed", scopes?: readonly Scope[]): Promise<KeySecret> {
  const created = await take(api.POST("/v1/api_keys", { body: { name: name.trim() || undefined, kind, scopes: scopes && [...scopes] } }));
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
