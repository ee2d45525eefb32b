// Keyboard shortcuts. A screen lists its own with `useShortcuts`; the help (`?`) shows all that work at the moment.
import { useEffect, useRef } from "react";

import { keep, kept } from "../api/storage";
import { Store } from "../api/store";

export interface Shortcut {
  /** As in `aria-keyshortcuts`: `j`, `Enter`, `Alt+Shift+O`, `?`. */
  keys: string;
  name: string;
  /** Where it belongs in the help. */
  group: string;
  run: () => void;
}

const KEPT = "auspex-single-keys";

/** Single keys can be turned off, for people who dictate or whose keys are struck by chance (WCAG 2.1.4). */
export const singleKeys = new Store(kept(KEPT) !== "off");

export function setSingleKeys(on: boolean): void {
  keep(KEPT, on ? "on" : "off");
  singleKeys.set(on);
}

export const active = new Store<readonly Shortcut[]>([]);

const isSingle = (keys: string): boolean => !keys.includes("+");

function matches(event: KeyboardEvent, keys: string): boolean {
  const parts = keys.split("+");
  const key = keys.endsWith("++") ? "+" : (parts.pop() ?? "");
  const wants = (modifier: string) => parts.includes(modifier);
  if (event.ctrlKey !== wants("Control") || event.altKey !== wants("Alt") || event.metaKey !== wants("Meta")) return false;
  // With Alt, some systems change the character, so the key itself is compared.
  if (wants("Alt")) return event.shiftKey === wants("Shift") && event.code === `Key${key}`;
  return event.key === key || (key.length === 1 && !wants("Shift") && event.key.toLowerCase() === key && !event.shiftKey);
}

/** Whether a key belongs to what is focused: text, lists, and dialogs keep their keys. */
function isTaken(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest("input, textarea, select, [role=listbox], [role=menu]")) return true;
  if (document.querySelector("[role=dialog], [role=alertdialog]")) return true;
  return (event.key === "Enter" || event.key === " ") && target.closest("button, a, [role=row], [role=tab]") !== null;
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || isTaken(event)) return;
  const shortcut = active.get().findLast((candidate) => matches(event, candidate.keys) && (singleKeys.get() || !isSingle(candidate.keys)));
  if (!shortcut) return;
  event.preventDefault();
  shortcut.run();
});

/** Makes shortcuts work for as long as the component is shown. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  const identity = shortcuts.map((shortcut) => `${shortcut.keys} ${shortcut.name}`).join("\n");
  useEffect(() => {
    const mine = latest.current.map((shortcut, index) => ({ ...shortcut, run: () => latest.current[index]?.run() }));
    active.set([...active.get(), ...mine]);
    return () => active.set(active.get().filter((shortcut) => !mine.includes(shortcut)));
  }, [identity]);
}
