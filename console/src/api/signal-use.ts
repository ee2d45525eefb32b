// Who uses a signal, and what it costs: the same on every screen that says so.
import type { Schemas } from "./client";

export type Rule = Schemas["Rule"];

/** Whether a condition compares the signal. A bare word right after an operator is a value, as the service reads it. */
function reads(when: string, key: string): boolean {
  const bare = when.replace(/"[^"]*"|'[^']*'/g, " ").replace(/(>=|<=|!=|==|=|>|<)\s*[\p{L}\p{N}_.-]+/gu, "$1 ");
  // The name of an event in `events(…)`, and the facts themselves, are no signals.
  const compared = bare.replace(/\bevents\s*\([^)]*\)/gi, " ");
  return (compared.match(/[\p{L}\p{N}_]+/gu) ?? ([] as string[])).includes(key);
}

/** The rules whose condition compares the signal. */
export const rulesReading = (key: string, rules: readonly Rule[]): Rule[] => rules.filter(({ when }) => reads(when, key));

const MONTH_DAYS = 30;

/** The days of the range since the first use: an account that is younger than the range is not made to look cheaper than it is. */
export function usedDays(usage: Schemas["Usage"]): number {
  const used = usage.series.findIndex((day) => day.analyses > 0);
  return Math.max(1, usage.series.length - Math.max(0, used));
}

/** What all signals together cost in 30 days at the pace of the days that were used. */
export const monthlyTotalMicros = (usage: Schemas["Usage"]): number => Math.round((usage.totals.spend_micros * MONTH_DAYS) / usedDays(usage));

/** What a signal costs in 30 days: its share of the questions asked, of all that was spent; unknown without usage. */
export function monthlyMicros(key: string, usage: Schemas["Usage"] | undefined): number | undefined {
  if (!usage?.metering_enabled) return undefined;
  const questions = usage.by_signal.reduce((sum, row) => sum + row.analyses, 0);
  const own = usage.by_signal.find((row) => row.signal === key)?.analyses ?? 0;
  if (questions === 0) return 0;
  return Math.round((((usage.totals.spend_micros * own) / questions) * MONTH_DAYS) / usedDays(usage));
}
