// Saved views: a condition and a sort under a name. They are kept in this browser, for one member of one account.
import type { Me } from "../../api/session";
import { keep, kept } from "../../api/storage";
import type { Sort } from "./objects";

export interface View {
  name: string;
  q: string;
  sort: Sort;
}

const MOST = 50;
const keyOf = (me: Me): string => `auspex-views ${me.tenant_id} ${me.user_id}`;

const isView = (value: unknown): value is View => {
  const view = value as Partial<View> | null;
  return typeof view === "object" && view !== null && [view.name, view.q, view.sort].every((field) => typeof field === "string");
};

export function viewsOf(me: Me): View[] {
  try {
    const stored: unknown = JSON.parse(kept(keyOf(me)) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isView) : [];
  } catch {
    // It may be what somebody else wrote.
    return [];
  }
}

/** Stores the views and returns them. One with the same name is replaced. */
export function saveView(me: Me, view: View): View[] {
  return store(me, [...viewsOf(me).filter(({ name }) => name !== view.name), view].slice(-MOST));
}

export const removeView = (me: Me, name: string): View[] => store(
  me,
  viewsOf(me).filter((view) => view.name !== name),
);

function store(me: Me, views: View[]): View[] {
  const sorted = views.toSorted((one, other) => one.name.localeCompare(other.name, "en", { numeric: true }));
  if (!keep(keyOf(me), JSON.stringify(sorted))) throw new Error("this browser does not let the console keep views");
  return sorted;
}
