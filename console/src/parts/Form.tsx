// A form that sends itself: pending while it does, the server's errors beside the fields that they name, everything else above the
// button. What was typed stays until the form succeeds.
import { useEffect, useImperativeHandle, useMemo, useRef, useState, type ReactNode, type RefObject } from "react";
import { Form as AriaForm } from "react-aria-components/Form";

import { ApiError, sentenceOf } from "../api/error";
import { Button } from "./Button";
import styles from "./Form.module.css";
import { Notice } from "./Notice";
import { UnsavedGuard } from "./Unsaved";

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
  /** Leaving the screen asks first while a field differs from what was last saved, or while `isChanged` says so of what is no field. */
  guard?: { isChanged: boolean };
  /** Is given a function that says whether anything is unsaved now, for a dialog that asks before it closes. Needs `guard`. */
  changes?: RefObject<(() => boolean) | null>;
  children?: ReactNode;
}

/** The values of a form's fields. */
export function valuesOf(form: HTMLFormElement): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of new FormData(form)) if (typeof value === "string") values[name] = value;
  return values;
}

/** Whether a form has unsaved changes, and what to call when it is saved. */
function useChanges(form: RefObject<HTMLFormElement | null>, isChangedOutside: boolean) {
  const saved = useRef<Record<string, string>>({});
  const isSending = useRef(false);
  const remember = () => {
    if (form.current) saved.current = valuesOf(form.current);
  };
  useEffect(remember, [form]);
  const isChanged = () => {
    if (isSending.current || !form.current) return false;
    // A field that came later has no earlier value to differ from.
    return isChangedOutside || Object.entries(valuesOf(form.current)).some(([name, value]) => name in saved.current && saved.current[name] !== value);
  };
  return { isChanged, isSending, remember };
}

/** What is wrong goes as it is mended, not when the field is left: the button below would move away under a pointer that is about to press it. */
function useForgetErrors(form: RefObject<HTMLFormElement | null>): void {
  useEffect(() => {
    const element = form.current;
    const forget = ({ target }: Event) => {
      if (target instanceof HTMLElement && target.getAttribute("aria-invalid") === "true") target.dispatchEvent(new Event("change", { bubbles: true }));
    };
    element?.addEventListener("input", forget);
    return () => element?.removeEventListener("input", forget);
  }, [form]);
}

export function Form({ onSubmit, submit, fields = [], fieldOfCode = {}, kind = "primary", beside, wide, isDisabled, guard, changes, children }: Props) {
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const form = useRef<HTMLFormElement>(null);
  const { isChanged, isSending, remember } = useChanges(form, guard?.isChanged ?? false);
  useImperativeHandle(changes, () => isChanged);
  useForgetErrors(form);

  const field = problem instanceof ApiError ? (fieldOfCode[problem.code] ?? problem.field) : undefined;
  const placed = field !== undefined && fields.includes(field);
  // A field forgets the server's error when it is changed, and would be told again by an object that is another one only.
  const validationErrors = useMemo(() => (placed ? { [field]: sentenceOf(new Error((problem as ApiError).detail)) } : undefined), [problem, placed, field]);

  const send = async (values: Record<string, string>) => {
    setPending(true);
    setProblem(undefined);
    // Where saving leads to another screen, that is no leaving without saving.
    isSending.current = true;
    try {
      await onSubmit(values);
      remember();
    } catch (error) {
      setProblem(error);
    } finally {
      isSending.current = false;
      setPending(false);
    }
  };

  const element = (
    <AriaForm
      ref={form}
      className={styles.form}
      validationErrors={validationErrors}
      onSubmit={(event) => {
        event.preventDefault();
        if (pending) return;
        void send(valuesOf(event.currentTarget));
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
  if (!guard) return element;
  return (
    <>
      {element}
      <UnsavedGuard isChanged={isChanged} />
    </>
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
