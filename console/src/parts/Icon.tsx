// The console's icons: 16 px line drawings. An icon never says anything alone; the text beside it does.

const PATHS = {
  start: "M3 13V3l9 5-9 5Z",
  overview: "M2.500 13.500h11M4 11V8m4 3V4m4 7V6",
  explore: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.600-1.400L14 14",
  queue: "M2.500 3.500h11v6h-3l-1 2h-3l-1-2h-3v-6Zm0 6v3h11v-3",
  signals: "M2 8h2.500l2-4.500 3 9 2-4.500H14",
  rules: "M3 3h4v4H3V3Zm6 6h4v4H9V9ZM7 5h4v4",
  quality: "M2.500 13.500v-11m0 11h11M5 11l2.500-4 2.500 2 3-5.500",
  webhooks: "M6 6.500 3.500 11h5M8 3a2 2 0 1 1 1.600 3.200L12 11M12 11a2 2 0 1 1-2 2H6",
  keys: "M10.500 9a3.500 3.500 0 1 0-3.300-2.300L2.500 11.400V13.500H5V12h1.500v-1.500L8 9.200a3.500 3.500 0 0 0 2.500-.2ZM11.200 4.800v.01",
  billing: "M2 4.500h12v8H2v-8Zm0 2.500h12M4.500 10h2",
  members: "M6 8a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Zm-4 5.500c.2-2.300 1.800-3.700 4-3.700s3.800 1.400 4 3.700M10.500 3.300a2.500 2.500 0 0 1 0 4.400M12 10.200c1.200.5 1.900 1.700 2 3.300",
  audit: "M4 2.500h6l2.500 2.500v8.500H4v-11Zm2 5h4.500M6 10h4.500",
  account: "M8 8a2.700 2.700 0 1 0 0-5.400A2.700 2.700 0 0 0 8 8Zm-5 5.500c.3-2.400 2.300-4 5-4s4.700 1.600 5 4",
  health: "M8 13.500S2.500 10.500 2.500 6.300A2.900 2.900 0 0 1 8 5.100a2.900 2.900 0 0 1 5.500 1.200c0 4.200-5.500 7.200-5.500 7.200Z",
  good: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM5.300 8.200l1.900 1.900 3.500-4",
  bad: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.600m0 2.300v.01",
  warn: "M8 2.500 14 13H2L8 2.500Zm0 4v3.200m0 1.800v.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-3V7.300m0-2.200v.01",
  lock: "M4 7.500h8v6H4v-6Zm1.500 0v-2a2.500 2.500 0 0 1 5 0v2",
  copy: "M5.500 5.500h8v8h-8v-8Zm-3 5v-8h8",
  check: "m3 8.500 3.300 3.300L13 4.700",
  close: "m4 4 8 8m0-8-8 8",
  more: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  up: "m4 9.500 4-4 4 4",
  down: "m4 6.500 4 4 4-4",
  right: "m6.500 4 4 4-4 4",
  menu: "M2.500 4.500h11m-11 3.500h11m-11 3.500h11",
  plus: "M8 3v10M3 8h10",
  eye: "M1.500 8S4 3.800 8 3.800 14.500 8 14.500 8 12 12.200 8 12.200 1.500 8 1.500 8ZM8 9.800a1.800 1.800 0 1 0 0-3.600 1.800 1.800 0 0 0 0 3.600Z",
  leave: "M6.500 13.500h-4v-11h4M6 8h7.500m-3-3 3 3-3 3",
  external: "M6.500 3.500h-4v10h10v-4M9 2.500h4.500V7m0-4.500L7 9",
  sun: "M8 10.800a2.800 2.800 0 1 0 0-5.600 2.800 2.800 0 0 0 0 5.600ZM8 1.500v1.300m0 10.400v1.300M1.500 8h1.300m10.400 0h1.300M3.400 3.400l.9.900m7.400 7.400.9.900m0-9.200-.9.900M4.300 11.700l-.9.900",
  wait: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.300l2.200 1.300",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth={1.4} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
