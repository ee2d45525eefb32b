// Numbers, times and money: each says its unit, and times say their zone.
import { useContext, useSyncExternalStore } from "react";
import { Focusable } from "react-aria-components/Focusable";
import { Tooltip, TooltipTrigger } from "react-aria-components/Tooltip";

import { ArrowFocus } from "./arrow-focus";
import styles from "./Values.module.css";

const ABSOLUTE = new Intl.DateTimeFormat("en-GB", {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

export const absoluteTime = (at: string): string => ABSOLUTE.format(new Date(at));

export function relativeTime(at: string, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  // What was counts whole units that have passed; what is to come is rounded, so that a link made for 7 days does not say 6.
  const whole = seconds < 0 ? Math.trunc : Math.round;
  for (const [unit, length] of STEPS) if (Math.abs(seconds) >= length) return RELATIVE.format(whole(seconds / length), unit);
  return "just now";
}

/** The viewer's time zone, as it is named beside charts and tables. */
export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const NOW_MS = 30_000;
let now = Date.now();
const watchers = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** One clock for all times on the page. */
function watchNow(watcher: () => void): () => void {
  now = Date.now();
  watchers.add(watcher);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of watchers) each();
  }, NOW_MS);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** A time: how long ago it was, and on hover or focus the date, the time and the zone. */
export function Time({ at }: { at: string }) {
  const since = useSyncExternalStore(watchNow, () => now);
  const relative = relativeTime(at, since);
  const absolute = absoluteTime(at);
  const named = { dateTime: at, role: "note", className: styles.time, "aria-label": `${relative}, ${absolute}`, children: relative };
  // In a grid with hundreds of them the browser's own hint does; the focus is on the cell.
  if (useContext(ArrowFocus)) return <time {...named} title={absolute} />;
  return (
    <TooltipTrigger delay={300}>
      <Focusable>
        <time {...named} tabIndex={0} />
      </Focusable>
      <Tooltip className={styles.tooltip} offset={4}>
        {absolute}
      </Tooltip>
    </TooltipTrigger>
  );
}

const COUNT = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A whole number with separators: 1,234,567. */
export const count = (value: number): string => COUNT.format(value);
export const compact = (value: number): string => (value < 10_000 ? count(value) : COMPACT.format(value));
/** "1 object", "2 objects". */
export const plural = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`;
/** A share from 0 to 1 as a percentage. */
export const percent = (share: number, digits = 0): string => `${(share * 100).toFixed(digits)} %`;

const money = (currency: string, digits: number) =>
  new Intl.NumberFormat("en-US", { style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits });

/** Cents as money. */
export const moneyOfCents = (cents: number, currency = "usd"): string => money(currency, 2).format(cents / 100);

/** Millionths of a dollar as money: two digits where that says enough, more where it would say nothing. */
export function moneyOfMicros(micros: number, currency = "usd"): string {
  const size = Math.abs(micros);
  const digits = size === 0 || size >= 1_000_000 ? 2 : size >= 10_000 ? 4 : 6;
  return money(currency, digits).format(micros / 1_000_000);
}

/** Millionths of a dollar as money, with every digit that there is. */
export const exactMoneyOfMicros = (micros: number, currency = "usd"): string => money(currency, 6).format(micros / 1_000_000);

/** Bytes in binary units. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}
