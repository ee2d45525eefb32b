// A form that sends itself: pending while it does, the server's errors beside the fields that they name, everything else above the
// button. What was typed stays until the form succeeds.
import { useMemo, useRef, useState, type ReactNode } from "react";
import { Form as AriaForm } from "react-aria-components/Form";

import { ApiError, sentenceOf } from "../api/error";
import { Button } from "./Button";
import styles from "./Form.module.css";
import { Notice } from "./Notice";

interface Props {
  /** Sends the values. A thrown `ApiError` is shown; other errors too. */
  onSubmit: (values: Record<string, string>) => Promise<void>;
  submit: string;
  /** Fields whose errors have a place; an error of another field goes above the button. */
  fields?: readonly string[];
  /** Error codes that belong to a field although the message does not name it. */
  fieldOfCode?: Record<string, string>;
  kind?: "primary" | "danger";
  /** Beside the button. */
  beside?: ReactNode;
  /** Fills the width with the button: for sign-in and the like. */
  wide?: boolean;
  isDisabled?: boolean;
  children?: ReactNode;
}

export function Form({ onSubmit, submit, fields = [], fieldOfCode = {}, kind = "primary", beside, wide, isDisabled, children }: Props) {
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const form = useRef<HTMLFormElement>(null);

  const field = problem instanceof ApiError ? (fieldOfCode[problem.code] ?? problem.field) : undefined;
  const placed = field !== undefined && fields.includes(field);
  // A field forgets the server's error when it is changed, and would be told again by an object that is another one only.
  const validationErrors = useMemo(() => (placed ? { [field]: sentenceOf(new Error((problem as ApiError).detail)) } : undefined), [problem, placed, field]);

  const send = async (values: Record<string, string>) => {
    setPending(true);
    setProblem(undefined);
    try {
      await onSubmit(values);
    } catch (error) {
      setProblem(error);
    } finally {
      setPending(false);
    }
  };

  return (
    <AriaForm
      ref={form}
      className={styles.form}
      validationErrors={validationErrors}
      onSubmit={(event) => {
        event.preventDefault();
        if (pending) return;
        const values: Record<string, string> = {};
        for (const [name, value] of new FormData(event.currentTarget)) if (typeof value === "string") values[name] = value;
        void send(values);
      }}
    >
      {children}
      {problem !== undefined && !placed && <Problem problem={problem} />}
      <div className={`${styles.buttons} ${wide ? styles.wide : ""}`}>
        <Button type="submit" kind={kind} isPending={pending} isDisabled={isDisabled}>
          {submit}
        </Button>
        {beside}
      </div>
    </AriaForm>
  );
}

/** Why something that was asked for did not happen. */
export function Problem({ problem }: { problem: unknown }) {
  const requestId = problem instanceof ApiError && problem.status >= 500 ? problem.requestId : undefined;
  return (
    <Notice tone="bad" live>
      {sentenceOf(problem)}
      {requestId && (
        <>
          {" "}
          Request <code>{requestId}</code>.
        </>
      )}
    </Notice>
  );
}
