// Who is signed in, in this tab and in the others.
import { QueryClient, queryOptions, useSuspenseQuery } from "@tanstack/react-query";

import { api, take, type Schemas } from "./client";
import { onRestored } from "./connection";
import { ApiError } from "./error";
import { sessionKnown, signInGate } from "./gates";
import { may, type Action, type Role } from "./may";

/** `member_role` is not in the OpenAPI document yet. */
export type Me = Schemas["Me"];

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: "always",
      staleTime: 15_000,
      retry: (failures, error) => error instanceof ApiError && error.isTemporary && failures < 2,
      retryDelay: (failures, error) => ((error as ApiError).retryAfterSeconds ?? 2 ** failures) * 1000,
    },
    mutations: { networkMode: "always" },
  },
});

onRestored(() => void queries.invalidateQueries());

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async (): Promise<Me> => {
    const me = await take(api.GET("/v1/me"));
    sessionKnown.set(true);
    return me as Me;
  },
  staleTime: 60_000,
});

export const useMe = (): Me => useSuspenseQuery(meQuery).data;

export function roleOf(me: Me): Role {
  return me.member_role ?? (me.role === "analyst" || me.role === "viewer" ? me.role : "owner");
}

/** Whether the member who is signed in may do it. */
export function useMay(): (action: Action) => boolean {
  const role = roleOf(useMe());
  return (action) => may(role, action);
}

/** Whether nobody has opened an account on this install yet. */
export const stateQuery = queryOptions({
  queryKey: ["state"],
  queryFn: () => take(api.GET("/auth/console/state")),
  staleTime: 0,
});

export const providersQuery = queryOptions({
  queryKey: ["providers"],
  queryFn: () => take(api.GET("/auth/console/oauth/providers")),
  staleTime: 300_000,
});

type Notice = { kind: "signed-out" } | { kind: "signed-in"; userId: string | undefined };

const tabs = new BroadcastChannel("auspex-session");

/** Leaves for the sign-in page with a full load, so that nothing of the account stays in memory. */
export function leave(returnTo?: string): void {
  const target = new URL("/console/sign-in", location.origin);
  if (returnTo && returnTo !== "/" && returnTo.startsWith("/console/")) target.searchParams.set("next", returnTo);
  location.assign(target);
}

tabs.onmessage = (message: MessageEvent<Notice>) => {
  if (!sessionKnown.get()) return;
  if (message.data.kind === "signed-out") leave(location.pathname + location.search);
  else void continueAs(message.data.userId);
};

/** Goes on after a new sign-in: where it is the same member with what waits, else with a fresh page. */
async function continueAs(userId: string | undefined): Promise<void> {
  const before = queries.getQueryData(meQuery.queryKey)?.user_id;
  if (userId === before) signInGate.pass();
  else location.assign("/console/");
}

/** Call once a response has set the cookie of a new session. */
export async function signedIn(): Promise<void> {
  const before = queries.getQueryData(meQuery.queryKey);
  sessionKnown.set(false);
  const me = (await take(api.GET("/v1/me"))) as Me;
  sessionKnown.set(true);
  tabs.postMessage({ kind: "signed-in", userId: me.user_id } satisfies Notice);
  if (before) await continueAs(me.user_id);
  queries.setQueryData(meQuery.queryKey, me);
}

export async function signOut(): Promise<void> {
  sessionKnown.set(false);
  // A session that has ended already is as good as one that ends now.
  await take(api.POST("/auth/console/logout")).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  });
  tabs.postMessage({ kind: "signed-out" } satisfies Notice);
  leave();
}
