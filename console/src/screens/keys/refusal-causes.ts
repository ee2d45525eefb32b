// Why requests with the account's keys were refused, in sentences. The responses to the requests do not say.
import { queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";

export type Refusal = Schemas["KeyRefusal"];
type Cause = Schemas["KeyRefusalCause"];

export const refusalsQuery = queryOptions({
  queryKey: ["keys", "refusals"],
  queryFn: async ({ signal }) => (await take(api.GET("/v1/key_refusals", { signal }))).refusals,
});

/** What was wrong, and what to do about it. */
export const CAUSES: Record<Cause, { what: string; advice: string }> = {
  clock: { what: "The clock is off", advice: "Set the clock of the machine that signs; it may differ by 60 seconds. Or the token was made long before it was sent: make one for each request." },
  lifetime: { what: "The token lives too long", advice: "Set exp to at most 300 seconds after iat." },
  method: { what: "Signed for another method", advice: "Put the method of the request into htm." },
  path: { what: "Signed for another path", advice: "Put the path of the request into htu, decoded once and without the query." },
  signature: { what: "Signed with another secret", advice: "Use the key's present secret, all of its text: it may have been rotated, or cut off when it was copied." },
  claims: { what: "The token's claims are not complete", advice: "iat and exp must be there, as numbers of seconds." },
  key_mismatch: { what: "Two keys are named", advice: "api_key in the query and kid in the token must be the same key, or leave one out." },
  token_in_query: { what: "A token was in the query", advice: "Send it in the header Authorization: queries end up in logs. Make a new token for the next request." },
  not_for_signing: { what: "The key cannot sign", advice: "A bearer key is sent as it is; an old key has to be rotated first. Make a key for signing." },
  inactive: { what: "The key is turned off", advice: "Turn it on again, or use another one." },
  revoked: { what: "The key is revoked", advice: "It does not come back. Give the program another key." },
  scope: { what: "The key's scopes do not allow it", advice: "Use a key with the scope that the operation needs." },
};
