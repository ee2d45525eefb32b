// What the screen reads and how it reads it again.
import { queryOptions } from "@tanstack/react-query";

import { api, take } from "../../api/client";
import { notRead, readTogether } from "../../api/include";

export const identitiesQuery = queryOptions({ queryKey: ["identities"], queryFn: () => take(api.GET("/v1/me/identities")) });
export const mfaQuery = queryOptions({ queryKey: ["mfa"], queryFn: () => take(api.GET("/v1/me/mfa")) });
export const passkeysQuery = queryOptions({ queryKey: ["passkeys"], queryFn: async () => (await take(api.GET("/v1/me/passkeys"))).passkeys });
export const sessionsQuery = queryOptions({ queryKey: ["sessions"], queryFn: async () => (await take(api.GET("/v1/me/sessions"))).sessions });
export const notificationsQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: async () => (await take(api.GET("/v1/me/notifications"))).preferences,
});
export const settingsQuery = queryOptions({ queryKey: ["settings"], queryFn: () => take(api.GET("/v1/settings")) });

const PARTS = {
  settings: settingsQuery.queryKey,
  identities: identitiesQuery.queryKey,
  mfa: mfaQuery.queryKey,
  passkeys: passkeysQuery.queryKey,
  sessions: sessionsQuery.queryKey,
  notifications: notificationsQuery.queryKey,
};

/** All of the above in one request, for a screen that opens. Later each is read again by itself. */
export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: async ({ client, signal }) => {
    const query = { include: notRead(client, PARTS) };
    const me = await readTogether(client, PARTS, () => take(api.GET("/v1/me", { params: { query }, signal })));
    if (!me) return null;
    if (me.settings) client.setQueryData(PARTS.settings, me.settings);
    if (me.identities) client.setQueryData(PARTS.identities, me.identities);
    if (me.mfa) client.setQueryData(PARTS.mfa, me.mfa);
    if (me.passkeys) client.setQueryData(PARTS.passkeys, me.passkeys);
    if (me.sessions) client.setQueryData(PARTS.sessions, me.sessions);
    if (me.notifications) client.setQueryData(PARTS.notifications, me.notifications.preferences);
    return null;
  },
  staleTime: "static",
  gcTime: 0,
});
