// Whether the service can be reached. Every request reports here; the banner of the shell shows it.
import { Store } from "./store";

/** `offline`: no response at all. `unavailable`: the service answers that it cannot work now (503 `not_ready`). */
export type Connection = "good" | "offline" | "unavailable";

export const connection = new Store<Connection>("good");

const PROBE_MS = 3000;
let probe: ReturnType<typeof setTimeout> | undefined;
const restored = new Set<() => void>();

/** Calls back whenever the service can be reached again. */
export function onRestored(callback: () => void): void {
  restored.add(callback);
}

export function reportResponse(): void {
  if (connection.get() === "good") return;
  connection.set("good");
  clearTimeout(probe);
  probe = undefined;
  for (const callback of restored) callback();
}

export function reportFailure(kind: "offline" | "unavailable"): void {
  connection.set(kind);
  if (probe === undefined) probe = setTimeout(() => void probeNow(), PROBE_MS);
}

/** Asks whether the service is ready again; repeats until it is. */
export async function probeNow(): Promise<void> {
  clearTimeout(probe);
  probe = undefined;
  try {
    const response = await fetch("/readyz", { cache: "no-store" });
    if (response.ok) reportResponse();
    else reportFailure("unavailable");
  } catch {
    reportFailure("offline");
  }
}

addEventListener("online", () => {
  if (connection.get() !== "good") void probeNow();
});
