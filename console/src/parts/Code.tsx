// Text to copy: a button, a block of code, and a secret that is shown once.
import { useRef, useState } from "react";

import { Button } from "./Button";
import styles from "./Code.module.css";
import { Visible } from "./Foreign";
import { Notice } from "./Notice";

const SHOWN_MS = 2000;

/** Copies a text and says so for a moment. `what` completes "Copy …". */
export function CopyButton({ text, what, kind = "quiet" }: { text: string; what: string; kind?: "quiet" | "plain" }) {
  const [state, setState] = useState<"" | "copied" | "failed">("");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const copy = async () => {
    const done = await navigator.clipboard.writeText(text).then(
      () => "copied" as const,
      () => "failed" as const,
    );
    setState(done);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState(""), SHOWN_MS);
  };
  return (
    <>
      <Button kind={kind} icon={state === "copied" ? "check" : "copy"} aria-label={`Copy ${what}`} onPress={() => void copy()}>
        {state === "copied" ? "Copied" : state === "failed" ? "Select and copy it" : "Copy"}
      </Button>
      <span className="unseen" role="status">
        {state === "copied" ? "Copied" : ""}
      </span>
    </>
  );
}

/** A block of code with a button that copies it. `what` completes "Copy …". In a foreign one, hidden characters are visible, and copied as they are. */
export function CodeBlock({ code, what, foreign = false }: { code: string; what: string; foreign?: boolean }) {
  return (
    <div className={styles.block}>
      <div className={styles.copy}>
        <CopyButton text={code} what={what} />
      </div>
      <pre tabIndex={0} aria-label={what}>
        <code>{foreign ? <Visible text={code} /> : code}</code>
      </pre>
    </div>
  );
}

/** Values that are shown now and never again. */
export function SecretOnce({ items, note }: { items: { name: string; value: string }[]; note: string }) {
  return (
    <div className={styles.secret}>
      <Notice tone="warn">{note}</Notice>
      <dl>
        {items.map((item) => (
          <div key={item.name}>
            <dt>{item.name}</dt>
            <dd>
              <code>{item.value}</code>
              <CopyButton text={item.value} what={item.name.toLowerCase()} kind="plain" />
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
