// What the screen reads and how it reads it again.
import { queryOptions } from "@tanstack/react-query";

import { api, take } from "../../api/client";

export const identitiesQuery = queryOptions({ queryKey: ["identities"], queryFn: () => take(api.GET("/v1/me/identities")) });
export const mfaQuery = queryOptions({ queryKey: ["mfa"], queryFn: () => take(api.GET("/v1/me/mfa")) });
export const passkeysQuery = queryOptions({ queryKey: ["passkeys"], queryFn: async () => (await take(api.GET("/v1/me/passkeys"))).passkeys });
export const sessionsQuery = queryOptions({ queryKey: ["sessions"], queryFn: async () => (await take(api.GET("/v1/me/sessions"))).sessions });
export const notificationsQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: async () => (await take(api.GET("/v1/me/notifications"))).preferences,
});
export const settingsQuery = queryOptions({ queryKey: ["settings"], queryFn: () => take(api.GET("/v1/settings")) });
