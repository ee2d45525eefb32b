// Every screen of the console: its name, its address, who sees it, and the file that draws it. The navigation, the router, the
// shortcuts and the tests all read this list.
import type { ComponentType } from "react";

import type { Action } from "../api/may";
import type { IconName } from "../parts/Icon";

export interface ScreenEntry {
  id: string;
  /** As the navigation shows it. */
  name: string;
  path: string;
  /** Left out for screens that are reached from lists. */
  navigation?: { group: "Start" | "Work" | "Configure" | "Account"; icon: IconName; key: string };
  /** Hidden from roles that may not. */
  needs?: Action;
  /** For operators of the install alone. */
  operators?: boolean;
  load: () => Promise<{ default: ComponentType }>;
}

export const SCREENS: readonly ScreenEntry[] = [
  { id: "first-steps", name: "First steps", path: "/console/first-steps", navigation: { group: "Start", icon: "start", key: "F" }, load: () => import("./first-steps/FirstSteps") },
  { id: "overview", name: "Overview", path: "/console/overview", navigation: { group: "Start", icon: "overview", key: "O" }, load: () => import("./overview/Overview") },
  { id: "explore", name: "Explore", path: "/console/explore", navigation: { group: "Work", icon: "explore", key: "E" }, load: () => import("./explore/Explore") },
  { id: "queue", name: "Queue", path: "/console/queue", navigation: { group: "Work", icon: "queue", key: "U" }, load: () => import("./queue/Queue") },
  { id: "object", name: "Object", path: "/console/objects/$objectId", load: () => import("./object/Object") },
  { id: "signals", name: "Signals", path: "/console/signals", navigation: { group: "Configure", icon: "signals", key: "S" }, load: () => import("./signals/Signals") },
  { id: "new-signal", name: "New signal", path: "/console/signals/new-signal", needs: "signals.write", load: () => import("./signals/NewSignal") },
  { id: "signal", name: "Signal", path: "/console/signals/$key", load: () => import("./signals/Signal") },
  { id: "rules", name: "Rules", path: "/console/rules", navigation: { group: "Configure", icon: "rules", key: "R" }, load: () => import("./rules/Rules") },
  { id: "new-rule", name: "New rule", path: "/console/rules/new-rule", needs: "rules.write", load: () => import("./rules/NewRule") },
  { id: "rule", name: "Rule", path: "/console/rules/$ruleId", load: () => import("./rules/Rule") },
  { id: "quality", name: "Quality", path: "/console/quality", navigation: { group: "Work", icon: "quality", key: "Q" }, load: () => import("./quality/Quality") },
  { id: "webhooks", name: "Webhooks", path: "/console/webhooks", navigation: { group: "Configure", icon: "webhooks", key: "W" }, load: () => import("./webhooks/Webhooks") },
  { id: "endpoint", name: "Endpoint", path: "/console/webhooks/$endpointId", load: () => import("./webhooks/Endpoint") },
  { id: "keys", name: "Keys", path: "/console/keys", navigation: { group: "Configure", icon: "keys", key: "K" }, load: () => import("./keys/Keys") },
  { id: "machine-login", name: "Sign in on a machine", path: "/console/machine-login", load: () => import("./machine-login/MachineLogin") },
  { id: "billing", name: "Billing", path: "/console/billing", navigation: { group: "Account", icon: "billing", key: "B" }, needs: "money.read", load: () => import("./billing/Billing") },
  { id: "members", name: "Members", path: "/console/members", navigation: { group: "Account", icon: "members", key: "M" }, needs: "members.read", load: () => import("./members/Members") },
  { id: "audit-log", name: "Audit log", path: "/console/audit-log", navigation: { group: "Account", icon: "audit", key: "L" }, needs: "audit.read", load: () => import("./audit-log/AuditLog") },
  { id: "account", name: "Account", path: "/console/account", navigation: { group: "Account", icon: "account", key: "A" }, load: () => import("./account/Account") },
  { id: "health", name: "Health", path: "/console/health", navigation: { group: "Account", icon: "health", key: "H" }, operators: true, load: () => import("./health/Health") },
  { id: "tenants", name: "Tenants", path: "/console/tenants", navigation: { group: "Account", icon: "tenants", key: "T" }, operators: true, load: () => import("./tenants/Tenants") },
];

export const GROUPS = ["Start", "Work", "Configure", "Account"] as const;
