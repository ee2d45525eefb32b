// A guard for what was typed and not saved: leaving asks first.
import { useBlocker } from "@tanstack/react-router";
import { useCallback, useEffect, useRef } from "react";

import { Button } from "./Button";
import { Dialog } from "./Dialog";
import styles from "./Unsaved.module.css";

/** Asks before another address is opened, or the tab closed, while something is not saved. Another tab of the same screen is no leaving. */
export function UnsavedGuard({ isChanged }: { isChanged: () => boolean }) {
  // The router asks the newest one, without being told of a new guard after each key.
  const newest = useRef(isChanged);
  useEffect(() => {
    newest.current = isChanged;
  });
  const blocker = useBlocker({
    shouldBlockFn: useCallback(({ current, next }: { current: { pathname: string }; next: { pathname: string } }) => current.pathname !== next.pathname && newest.current(), []),
    enableBeforeUnload: useCallback(() => newest.current(), []),
    withResolver: true,
  });
  return <LeaveDialog isOpen={blocker.status === "blocked"} onStay={() => blocker.reset?.()} onLeave={() => blocker.proceed?.()} />;
}

interface Props {
  isOpen: boolean;
  onStay: () => void;
  onLeave: () => void;
}

/** Escape stays. */
export function LeaveDialog({ isOpen, onStay, onLeave }: Props) {
  return (
    <Dialog title="Leave without saving?" isOpen={isOpen} onClose={onStay}>
      <div className={styles.ask}>
        <p>What you typed here is not saved, and is gone once you leave.</p>
        <div className={styles.buttons}>
          <Button kind="primary" autoFocus onPress={onStay}>
            Stay
          </Button>
          <Button kind="danger" onPress={onLeave}>
            Leave without saving
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
