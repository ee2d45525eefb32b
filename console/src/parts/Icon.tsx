// The console's icons: 16 px line drawings. An icon never says anything alone; the text beside it does.

const PATHS = {
  start: "M3 13V3l9 5-9 5Z",
  overview: "M2.5 13.5h11M4 11V8m4 3V4m4 7V6",
  explore: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",
  queue: "M2.5 3.5h11v6h-3l-1 2h-3l-1-2h-3v-6Zm0 6v3h11v-3",
  signals: "M2 8h2.5l2-4.5 3 9 2-4.5H14",
  rules: "M3 3h4v4H3V3Zm6 6h4v4H9V9ZM7 5h4v4",
  quality: "M2.5 13.5v-11m0 11h11M5 11l2.5-4 2.5 2 3-5.5",
  webhooks: "M6 6.5 3.5 11h5M8 3a2 2 0 1 1 1.6 3.2L12 11M12 11a2 2 0 1 1-2 2H6",
  keys: "M10.5 9a3.5 3.5 0 1 0-3.3-2.3L2.5 11.4V13.5H5V12h1.5v-1.5L8 9.2a3.5 3.5 0 0 0 2.5-.2ZM11.2 4.8v.01",
  billing: "M2 4.5h12v8H2v-8Zm0 2.5h12M4.5 10h2",
  members: "M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm-4 5.5c.2-2.3 1.8-3.7 4-3.7s3.8 1.4 4 3.7M10.5 3.3a2.5 2.5 0 0 1 0 4.4M12 10.2c1.2.5 1.9 1.7 2 3.3",
  audit: "M4 2.5h6l2.5 2.5v8.5H4v-11Zm2 5h4.5M6 10h4.5",
  account: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8Zm-5 5.5c.3-2.4 2.3-4 5-4s4.7 1.6 5 4",
  tenants: "M2.5 13.5v-9l4-2v11m0-8h7v8m-11 0h11M4.5 6.5v.01m0 2.5v.01m5-.51v.01m0 2.5v.01",
  health: "M8 13.5S2.5 10.5 2.5 6.3A2.9 2.9 0 0 1 8 5.1a2.9 2.9 0 0 1 5.5 1.2c0 4.2-5.5 7.2-5.5 7.2Z",
  good: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM5.3 8.2l1.9 1.9 3.5-4",
  bad: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.6m0 2.3v.01",
  warn: "M8 2.5 14 13H2L8 2.5Zm0 4v3.2m0 1.8v.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-3V7.3m0-2.2v.01",
  lock: "M4 7.5h8v6H4v-6Zm1.5 0v-2a2.5 2.5 0 0 1 5 0v2",
  copy: "M5.5 5.5h8v8h-8v-8Zm-3 5v-8h8",
  check: "m3 8.5 3.3 3.3L13 4.7",
  close: "m4 4 8 8m0-8-8 8",
  more: "M3 8a.6.6 0 1 0 1.2 0A.6.6 0 1 0 3 8Zm4.4 0a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0Zm4.4 0a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0Z",
  up: "m4 9.5 4-4 4 4",
  down: "m4 6.5 4 4 4-4",
  right: "m6.5 4 4 4-4 4",
  menu: "M2.5 4.5h11m-11 3.5h11m-11 3.5h11",
  plus: "M8 3v10M3 8h10",
  eye: "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8ZM8 9.8a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6Z",
  leave: "M6.5 13.5h-4v-11h4M6 8h7.5m-3-3 3 3-3 3",
  external: "M6.5 3.5h-4v10h10v-4M9 2.5h4.5V7m0-4.5L7 9",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM8 1.5v1.3m0 10.4v1.3M1.5 8h1.3m10.4 0h1.3M3.4 3.4l.9.9m7.4 7.4.9.9m0-9.2-.9.9M4.3 11.7l-.9.9",
  wait: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.3l2.2 1.3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth={1.4} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
