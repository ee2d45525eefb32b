// Light, dark, or as the system has it.
import { keep, kept } from "../api/storage";
import { Store } from "../api/store";

export type Theme = "system" | "light" | "dark";

const KEPT = "auspex-theme";

function chosen(): Theme {
  const value = kept(KEPT);
  return value === "light" || value === "dark" ? value : "system";
}

export const theme = new Store<Theme>(chosen());

function apply(value: Theme): void {
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
}

apply(theme.get());

export function setTheme(value: Theme): void {
  keep(KEPT, value);
  theme.set(value);
  apply(value);
}
