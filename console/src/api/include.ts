// What comes along with another record, by a parameter `include`.
import type { QueryClient, QueryKey } from "@tanstack/react-query";

const FRESH_MS = 15_000;

type Parts = Record<string, QueryKey>;

/** The parts that were not read lately, as a parameter `include`. */
export function notRead(client: QueryClient, parts: Parts): string | undefined {
  const isOld = (queryKey: QueryKey) => client.getQueryCache().find({ queryKey, exact: true })?.isStaleByTime(FRESH_MS) ?? true;
  const old = Object.entries(parts).filter(([, key]) => isOld(key));
  return old.map(([part]) => part).join() || undefined;
}

/** Asks for all parts at once if some were not read lately. A failure counts only where a part was never read: the rest can be shown. */
export async function readTogether<T>(client: QueryClient, parts: Parts, ask: () => Promise<T>): Promise<T | undefined> {
  if (!notRead(client, parts)) return undefined;
  const isKnown = Object.values(parts).every((key) => client.getQueryData(key) !== undefined);
  return ask().catch((error: unknown) => {
    if (isKnown) return undefined;
    throw error;
  });
}
