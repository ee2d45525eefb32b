// A sentence that matters, in the flow of a screen; and a short state word.
import type { ReactNode } from "react";

import { Icon, type IconName } from "./Icon";
import styles from "./Notice.module.css";

export type Tone = "info" | "good" | "warn" | "bad";

const ICONS: Record<Tone, IconName> = { info: "info", good: "good", warn: "warn", bad: "bad" };

export function Notice({ tone = "info", live = false, action, children }: { tone?: Tone; live?: boolean; action?: ReactNode; children: ReactNode }) {
  return (
    <div className={styles.notice} data-tone={tone} role={live ? "alert" : undefined}>
      <Icon name={ICONS[tone]} />
      <div className={styles.text}>{children}</div>
      {action}
    </div>
  );
}

/** One or two words about the state of a thing, with the sign that belongs to its tone. */
export function Badge({ tone, children }: { tone?: Tone; children: string }) {
  return (
    <span className={styles.badge} data-tone={tone}>
      {tone && <Icon name={ICONS[tone]} size={12} />}
      {children}
    </span>
  );
}
