// What each role may do. The service enforces it; the console does not offer what would be refused.

export type Role = "owner" | "admin" | "analyst" | "viewer";

/** Everything that not every role may do. Whatever is not here is open to every member. */
export type Action =
  | "money.read"
  | "money.pay"
  | "members.read"
  | "members.write"
  | "audit.read"
  | "keys.write"
  | "refusals.read"
  | "signals.write"
  | "rules.write"
  | "webhooks.write"
  | "settings.write"
  | "objects.write"
  | "events.write"
  | "labels.write"
  | "reviews.write"
  | "trials.write"
  | "playground"
  | "explain"
  | "account.delete";

const ANALYST: readonly Action[] = ["labels.write", "reviews.write", "trials.write", "playground", "explain"];
const ADMIN: readonly Action[] = [
  ...ANALYST,
  "money.read",
  "members.read",
  "members.write",
  "audit.read",
  "keys.write",
  "refusals.read",
  "signals.write",
  "rules.write",
  "webhooks.write",
  "settings.write",
  "objects.write",
  "events.write",
];

const ALLOWED: Record<Role, ReadonlySet<Action>> = {
  owner: new Set([...ADMIN, "money.pay", "account.delete"]),
  admin: new Set(ADMIN),
  analyst: new Set(ANALYST),
  viewer: new Set(),
};

export function may(role: Role, action: Action): boolean {
  return ALLOWED[role].has(action);
}

/** The least role that may do it, for the sentence of a refusal. */
export function leastRole(action: Action): Role {
  const order: Role[] = ["viewer", "analyst", "admin", "owner"];
  return order.find((role) => may(role, action)) ?? "owner";
}
