// Puts a threshold of one signal into a condition.

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The comparison of the signal with a number that a condition has, if it has exactly one. */
function comparisonOf(condition: string, key: string): RegExpMatchArray | undefined {
  const found = [...condition.matchAll(new RegExp(`(?<![\\w.])${escaped(key)}\\s*(>=|<=|>|<)\\s*(\\d+(?:\\.\\d+)?)`, "g"))];
  return found.length === 1 ? found[0] : undefined;
}

/** The threshold of a signal in a condition. */
export function thresholdIn(condition: string, key: string): { operator: string; value: number } | undefined {
  const found = comparisonOf(condition, key);
  return found && { operator: found[1] ?? ">", value: Number(found[2]) };
}

/** The condition with this threshold: instead of the one that it has, or beside everything else. */
export function withThreshold(condition: string, key: string, value: number): string {
  const found = comparisonOf(condition, key);
  if (found) return condition.slice(0, found.index) + `${key} ${found[1]} ${value}` + condition.slice((found.index ?? 0) + found[0].length);
  const before = condition.trim();
  if (before === "") return `${key} > ${value}`;
  return `${/\bor\b/.test(before) ? `(${before})` : before} and ${key} > ${value}`;
}
