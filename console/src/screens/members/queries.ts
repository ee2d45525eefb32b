// Members and invitations.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";
import type { Role } from "../../api/may";

export type Member = Schemas["Member"];
export type Invitation = Schemas["Invitation"];

export const ROLES: { id: Role; label: string; hint: string }[] = [
  { id: "owner", label: "Owner", hint: "does everything, including payments and managing members." },
  { id: "admin", label: "Admin", hint: "does everything except payments and changing owners." },
  { id: "analyst", label: "Analyst", hint: "reads, labels, reviews, tries wordings and asks what moved an answer." },
  { id: "viewer", label: "Viewer", hint: "reads, and sees no money." },
];

export const membersQuery = infiniteQueryOptions({
  queryKey: ["members", "list"],
  queryFn: ({ pageParam, signal }) => take(api.GET("/v1/members", { params: { query: { cursor: pageParam } }, signal })),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (last) => last.next_cursor,
});

export const invitationsQuery = queryOptions({
  queryKey: ["members", "invitations"],
  queryFn: async () => (await take(api.GET("/v1/invitations"))).invitations,
});
