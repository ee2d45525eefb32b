// What comes along with another record, by a parameter `include`.
import type { QueryClient, QueryKey } from "@tanstack/react-query";

const FRESH_MS = 15_000;

/** The parts that were not read lately, as a parameter `include`: whoever asks for them then finds them in the cache. */
export function notRead(client: QueryClient, parts: Record<string, QueryKey>): string | undefined {
  const isOld = (queryKey: QueryKey) => client.getQueryCache().find({ queryKey, exact: true })?.isStaleByTime(FRESH_MS) ?? true;
  return (
    Object.entries(parts)
      .filter(([, key]) => isOld(key))
      .map(([part]) => part)
      .join() || undefined
  );
}
