// What a screen shows when it has nothing to show: empty, loading, failed, not permitted.
import type { ReactNode } from "react";

import { ApiError, sentenceOf } from "../api/error";
import { leastRole, type Action } from "../api/may";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";
import styles from "./States.module.css";

function State(props: { icon: IconName; tone?: "bad"; title: string; children?: ReactNode; action?: ReactNode; live?: boolean }) {
  return (
    <div className={styles.state} role={props.live ? "alert" : undefined} data-tone={props.tone}>
      <span className={styles.icon}>
        <Icon name={props.icon} size={20} />
      </span>
      <p className={styles.title}>{props.title}</p>
      {props.children && <div className={styles.text}>{props.children}</div>}
      {props.action && <div className={styles.action}>{props.action}</div>}
    </div>
  );
}

/** Nothing is there yet: says what will be, and how to make the first. */
export function Empty(props: { icon: IconName; title: string; children?: ReactNode; action?: ReactNode }) {
  return <State {...props} />;
}

/** A request failed. Says why, with the request's id, and offers to try again. */
export function Failed({ error, retry }: { error: unknown; retry?: () => void }) {
  const requestId = error instanceof ApiError ? error.requestId : undefined;
  const missing = error instanceof ApiError && error.status === 404;
  return (
    <State
      icon="bad"
      tone="bad"
      live
      title={missing ? "This does not exist, or is no longer there" : "This could not be loaded"}
      action={retry && !missing && <Button onPress={retry}>Try again</Button>}
    >
      <p>{sentenceOf(error)}</p>
      {requestId && (
        <p className={styles.id}>
          Request <code>{requestId}</code>
        </p>
      )}
    </State>
  );
}

/** The member's role does not reach this screen. */
export function NotPermitted({ action }: { action: Action }) {
  const role = leastRole(action);
  return (
    <State icon="lock" title="Your role does not include this">
      <p>
        {role === "owner" ? "Only an owner" : `An ${role === "analyst" ? "analyst, an admin or an owner" : "admin or an owner"}`} of this account can see it. Ask one
        of them if you need it.
      </p>
    </State>
  );
}

/** Stands where content will be. `lines` is how tall it is. */
export function Skeleton({ lines = 4, label = "Loading" }: { lines?: number; label?: string }) {
  return (
    <div className={styles.skeleton} role="status">
      <span className="unseen">{label}</span>
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} className={styles.bone} data-short={index % 3 === 2 || undefined} aria-hidden="true" />
      ))}
    </div>
  );
}
