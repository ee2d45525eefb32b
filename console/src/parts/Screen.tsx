// The frame of a screen: its title (also the document's), one h1, and sections. Focus moves to the h1 when the screen opens, so
// that a screen reader says where one has arrived.
import { useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, type ReactNode } from "react";

import type { Action } from "../api/may";
import { useMay } from "../api/session";
import styles from "./Screen.module.css";
import { NotPermitted } from "./States";

interface ScreenProps {
  title: string;
  /** One sentence under the title. */
  about?: ReactNode;
  /** Buttons at the right of the title. */
  actions?: ReactNode;
  /** The width of running text, for forms; otherwise all there is. */
  narrow?: boolean;
  children: ReactNode;
}

export function useDocumentTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Auspex`;
  }, [title]);
}

export function Screen({ title, about, actions, narrow = false, children }: ScreenProps) {
  useDocumentTitle(title);
  const heading = useRef<HTMLHeadingElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(() => {
    // The first screen after a load leaves the focus where the browser puts it.
    if (document.documentElement.dataset.navigated === undefined) document.documentElement.dataset.navigated = "";
    else heading.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <div className={`${styles.screen} ${narrow ? styles.narrow : ""}`}>
      <header className={styles.header}>
        <div className={styles.heading}>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {about && <p className={styles.about}>{about}</p>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** A screen that needs a permission; without it, the screen says so. */
export function GuardedScreen({ needs, ...props }: ScreenProps & { needs: Action }) {
  const may = useMay();
  return <Screen {...props} actions={may(needs) ? props.actions : undefined}>{may(needs) ? props.children : <NotPermitted action={needs} />}</Screen>;
}

interface SectionProps {
  title?: string;
  about?: ReactNode;
  actions?: ReactNode;
  /** Without padding: for tables that reach the edges. */
  flush?: boolean;
  children: ReactNode;
}

/** A titled area of a screen. */
export function Section({ title, about, actions, flush = false, children }: SectionProps) {
  return (
    <section className={styles.section} aria-label={title}>
      {(title || actions) && (
        <header className={styles.sectionHeader}>
          <div>
            {title && <h2>{title}</h2>}
            {about && <p className={styles.about}>{about}</p>}
          </div>
          {actions && <div className={styles.actions}>{actions}</div>}
        </header>
      )}
      <div className={flush ? styles.flush : styles.body}>{children}</div>
    </section>
  );
}

/** Sections beside each other where there is room. */
export function Columns({ children }: { children: ReactNode }) {
  return <div className={styles.columns}>{children}</div>;
}

/** Names and values, one pair a line. */
export function Facts({ items }: { items: [name: string, value: ReactNode][] }) {
  return (
    <dl className={styles.facts}>
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
