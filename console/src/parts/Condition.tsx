// The editor of conditions: highlighting, completion, the service's own check underlined where it is, and the number of matches.
// CodeMirror is loaded when the first editor is shown; until then, and if it cannot be loaded, a plain field does.
import { useQuery } from "@tanstack/react-query";
import { Component, lazy, Suspense, useDeferredValue, useEffect, useId, useLayoutEffect, useRef, useState, type ReactNode, type RefObject } from "react";

import { api, take, type Schemas } from "../api/client";
import styles from "./Condition.module.css";
import { TextField } from "./Field";
import { Icon } from "./Icon";
import { count, plural } from "./Values";

export type Signal = Schemas["Signal"];
export type ConditionCheck = Schemas["ConditionCheck"];

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  signals: readonly Signal[];
  /** `rule` knows facts and must parse; `query` is what lists take. */
  use: "rule" | "query";
  /** Told what the service says of the condition. */
  onCheck?: (check: ConditionCheck | undefined) => void;
  /** Enter was pressed. */
  onEnter?: () => void;
  autoFocus?: boolean;
}

const Editor = lazy(() => import("./condition/Editor"));
const PAUSE_MS = 200;
/** What is wrong is said after a longer pause, or when the field is left: half a condition is no mistake. */
const WRONG_PAUSE_MS = 1000;

/** The value once it has stayed the same for a moment. */
function useSettled(value: string, pauseMs = PAUSE_MS): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value, pauseMs]);
  return settled;
}

/** What the service says of a condition. */
export function useConditionCheck(when: string, use: "rule" | "query") {
  return useQuery({
    queryKey: ["condition", use, when],
    queryFn: ({ signal }) => take(api.POST("/v1/conditions/check", { body: { when, for: use }, signal })),
    enabled: when.trim() !== "",
    placeholderData: (previous) => previous,
    staleTime: 10_000,
  });
}

/** Shows the plain field if the editor's script cannot be loaded. */
class Fallback extends Component<{ plain: ReactNode; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError = () => ({ failed: true });
  override render = () => (this.state.failed ? this.props.plain : this.props.children);
}

interface StandInProps extends Pick<Props, "label" | "value" | "onChange" | "onEnter"> {
  /** The field, while it has the focus. */
  focused: RefObject<HTMLInputElement | null>;
}

/** The plain field. What takes its place goes on where one was in it, be that the editor or, if it cannot be loaded, another plain field. */
function StandIn({ focused, onEnter, ...field }: StandInProps) {
  const around = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const left = focused.current;
    const input = around.current?.querySelector("input");
    if (!left || !input || left === input) return;
    input.focus();
    input.setSelectionRange(left.selectionStart, left.selectionEnd, left.selectionDirection ?? undefined);
  }, [focused]);
  return (
    <div
      ref={around}
      onFocusCapture={({ target }) => {
        if (target instanceof HTMLInputElement) focused.current = target;
      }}
      onBlurCapture={() => {
        focused.current = null;
      }}
      onKeyDownCapture={(event) => {
        if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
        // As in the editor: it does not send the form.
        event.preventDefault();
        onEnter?.();
      }}
    >
      <TextField name="condition" code {...field} />
    </div>
  );
}

export function ConditionEditor({ label, value, onChange, signals, use, onCheck, onEnter, autoFocus }: Props) {
  const labelId = useId();
  const settled = useSettled(value);
  const check = useConditionCheck(settled, use);
  const said = settled === value && value.trim() !== "" && !check.isPlaceholderData ? check.data : undefined;
  useEffect(() => onCheck?.(said), [said, onCheck]);
  const [isTyping, setTyping] = useState(false);
  const finished = useSettled(value, WRONG_PAUSE_MS);
  const shown = useDeferredValue(said?.error && isTyping && finished !== value ? undefined : said);
  const standIn = useRef<HTMLInputElement>(null);
  const plain = <StandIn label={label} value={value} onChange={onChange} onEnter={onEnter} focused={standIn} />;
  return (
    <div className={styles.condition} onFocus={() => setTyping(true)} onBlur={() => setTyping(false)}>
      <Fallback plain={plain}>
        <Suspense fallback={plain}>
          <span id={labelId} className={styles.label}>
            {label}
          </span>
          <Editor label={label} value={value} onChange={onChange} signals={signals} use={use} error={shown?.error} onEnter={onEnter} autoFocus={autoFocus} standIn={standIn} />
        </Suspense>
      </Fallback>
      <ConditionStatus check={shown} use={use} isEmpty={value.trim() === ""} />
    </div>
  );
}

/** What is wrong with a condition, and where. */
const problemText = ({ message, at }: NonNullable<ConditionCheck["error"]>): string => `${message.charAt(0).toUpperCase()}${message.slice(1)} (at character ${at + 1})`;

/** What a condition without a number of matches is: of rules one with facts, of queries a text. */
const UNCOUNTED = { rule: "Valid. Conditions with facts are counted when they are replayed.", query: "Searched as text in ids and names." };

function ConditionStatus({ check, use, isEmpty }: { check: ConditionCheck | undefined; use: Props["use"]; isEmpty: boolean }) {
  const bad = check?.error;
  return (
    <p className={styles.status} role="status" data-tone={bad ? "bad" : undefined}>
      {bad && <Icon name="bad" size={14} />}
      {bad ? problemText(bad) : null}
      {check?.valid && check.matches && `${check.matches.capped ? `${count(check.matches.count)} or more objects` : plural(check.matches.count, "object")} ${check.matches.count === 1 ? "matches" : "match"} now`}
      {check?.valid && !check.matches && UNCOUNTED[use]}
      {isEmpty && "For example: is_scammer > 0.65 and trust_score < 1"}
    </p>
  );
}
