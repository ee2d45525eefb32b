// Numbers, times and money: each says its unit, and times say their zone.
import { useEffect, useState } from "react";
import { Focusable } from "react-aria-components/Focusable";
import { Tooltip, TooltipTrigger } from "react-aria-components/Tooltip";

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
  for (const [unit, length] of STEPS) if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit);
  return "just now";
}

/** The viewer's time zone, as it is named beside charts and tables. */
export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** A time: how long ago it was, and on hover or focus the date, the time and the zone. */
export function Time({ at }: { at: string }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 30_000);
    return () => clearInterval(timer);
  }, []);
  return (
    <TooltipTrigger delay={300}>
      <Focusable>
        <time dateTime={at} tabIndex={0} role="note" className={styles.time} aria-label={`${relativeTime(at, now)}, ${absoluteTime(at)}`}>
          {relativeTime(at, now)}
        </time>
      </Focusable>
      <Tooltip className={styles.tooltip} offset={4}>
        {absoluteTime(at)}
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
