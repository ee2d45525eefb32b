// Members and invitations, which the OpenAPI document does not have yet.
import { queryOptions } from "@tanstack/react-query";

import { request } from "../../api/client";
import type { Role } from "../../api/may";

export interface Member {
  user_id: string;
  email: string;
  role: Role;
  created_at: string;
}

export interface Invitation {
  id: string;
  email: string;
  role: Role;
  expires_at: string;
}

export const ROLES: { id: Role; label: string; hint: string }[] = [
  { id: "owner", label: "Owner", hint: "may do everything, pay and manage members too." },
  { id: "admin", label: "Admin", hint: "may do everything but pay and change owners." },
  { id: "analyst", label: "Analyst", hint: "reads, labels, reviews, tries wordings and asks what moved an answer." },
  { id: "viewer", label: "Viewer", hint: "reads, and sees no money." },
];

export const membersQuery = queryOptions({
  queryKey: ["members"],
  queryFn: async () => (await request<{ members: Member[] }>("GET", "/v1/members")).members,
});

export const invitationsQuery = queryOptions({
  queryKey: ["members", "invitations"],
  queryFn: async () => (await request<{ invitations: Invitation[] }>("GET", "/v1/invitations")).invitations,
});
