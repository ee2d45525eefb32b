// The frame of the pages before sign-in: one thing to do, in the middle.
import type { ReactNode } from "react";

import { useDocumentTitle } from "../parts/Screen";
import { ConnectionBanner } from "./ConnectionBanner";
import mark from "./mark.svg";
import styles from "./ThresholdPage.module.css";

export function ThresholdPage({ title, about, children, foot }: { title: string; about?: ReactNode; children: ReactNode; foot?: ReactNode }) {
  useDocumentTitle(title);
  return (
    <main className={styles.page}>
      <div className={styles.column}>
        <p className={styles.brand}>
          <img src={mark} alt="" width={32} height={32} />
          Auspex
        </p>
        <ConnectionBanner />
        <div className={styles.card}>
          <header>
            <h1>{title}</h1>
            {about && <p className={styles.about}>{about}</p>}
          </header>
          {children}
        </div>
        {foot && <div className={styles.foot}>{foot}</div>}
      </div>
    </main>
  );
}

/** "or" between two ways to do the same. */
export function Or() {
  return (
    <p className={styles.or}>
      <span>or</span>
    </p>
  );
}
