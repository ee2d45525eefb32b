// Puts a threshold of one signal into a condition.

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The condition, as long as it was, without the words that stand in quotes: they are values, whatever they say. */
const withoutQuoted = (condition: string): string => condition.replaceAll(/"[^"]*"|'[^']*'/g, (quoted) => '"'.repeat(quoted.length));

/** The comparison of the signal with a number: the first, if there are several. */
function comparisonOf(condition: string, key: string): { at: number; end: number; operator: string; value: number } | undefined {
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_.])${escaped(key)}\\s*(>=|<=|>|<)\\s*(\\d+(?:\\.\\d+)?|\\.\\d+)`, "u");
  const found = pattern.exec(withoutQuoted(condition));
  return found ? { at: found.index, end: found.index + found[0].length, operator: found[1] ?? ">", value: Number(found[2]) } : undefined;
}

/** The threshold of a signal in a condition. */
export function thresholdIn(condition: string, key: string): { operator: string; value: number } | undefined {
  const found = comparisonOf(condition, key);
  return found && { operator: found.operator, value: found.value };
}

/** The condition with this threshold: instead of the one that it has, or beside everything else. */
export function withThreshold(condition: string, key: string, value: number): string {
  const found = comparisonOf(condition, key);
  if (found) return `${condition.slice(0, found.at)}${key} ${found.operator} ${value}${condition.slice(found.end)}`;
  const before = condition.trim();
  if (before === "") return `${key} > ${value}`;
  return `${/\bor\b/i.test(withoutQuoted(before)) ? `(${before})` : before} and ${key} > ${value}`;
}

/** What the condition says beside the threshold: among these objects, all of which have an answer to the signal, it divides. Nothing, where that cannot be told. */
export function besideThreshold(condition: string, key: string): string {
  const found = comparisonOf(condition, key);
  if (!found) return condition.trim();
  // What is negated would have to be false instead.
  if (/\bnot\b/i.test(withoutQuoted(condition))) return "";
  const [before, after] = [condition.slice(0, found.at).trim(), condition.slice(found.end).trim()];
  if (before === "" && after === "") return "";
  if (after === "" && / and$/i.test(before)) return before.slice(0, -" and".length).trim();
  // True of every answer.
  return `${before} ${key} >= 0${after.startsWith(")") || after.startsWith(",") ? "" : " "}${after}`.trim();
}
