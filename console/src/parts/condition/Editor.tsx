// CodeMirror for conditions. It lives in a shadow root: there it puts its styles into constructed sheets, which the content
// security policy permits, while in a document it would insert style elements.
import { autocompletion, completionKeymap, completionStatus, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { linter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useLayoutEffect, useRef, type RefObject } from "react";

import type { Signal } from "../Condition";
import { completer, conditionLanguage } from "./language";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  signals: readonly Signal[];
  use: "rule" | "query";
  error?: { message: string; at: number };
  onEnter?: () => void;
  autoFocus?: boolean;
  /** The field that stood in until now, if somebody was in it: the editor takes its selection and the focus. */
  standIn: RefObject<HTMLInputElement | null>;
}

const theme = EditorView.theme({
  "&": { border: "1px solid var(--line-strong)", borderRadius: "var(--radius)", background: "var(--surface)", color: "var(--text)", fontSize: "var(--size-base)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { padding: "0.35rem 0.5rem", caretColor: "var(--text)", minHeight: "1.6em" },
  ".cm-placeholder": { color: "var(--text-faint)" },
  ".cm-tooltip": { background: "var(--surface-raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "var(--radius)", boxShadow: "var(--shadow)" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "0.25rem 0.5rem", fontFamily: "var(--mono)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { background: "var(--accent-soft)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--text-soft)", fontStyle: "normal", fontFamily: "var(--font)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintPoint-error::after": { borderBottomColor: "var(--bad)" },
  "&.cm-focused .cm-selectionBackground, ::selection": { background: "var(--accent-soft)" },
});

const colours = HighlightStyle.define([
  { tag: tags.variableName, color: "var(--accent)" },
  { tag: tags.keyword, color: "var(--text)", fontWeight: "600" },
  { tag: tags.operator, color: "var(--text-soft)" },
  { tag: tags.number, color: "var(--warn)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: tags.typeName, color: "var(--accent)", fontStyle: "italic" },
]);

/**
 * Types over a selection. Left to itself, Chromium would give the new text the style of the old as an attribute, which the content security policy
 * stops and the browser logs.
 */
const typeOver = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    if (event.inputType !== "insertText" || !event.data || view.composing || view.state.selection.main.empty) return false;
    view.dispatch({ ...view.state.replaceSelection(event.data), userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** The service counts characters; the editor counts UTF-16 units. */
function unitsAt(text: string, characters: number): number {
  return Array.from(text).slice(0, characters).join("").length;
}

function diagnosticsOf(text: string, error: Props["error"]): Diagnostic[] {
  if (!error) return [];
  const from = Math.min(unitsAt(text, error.at), text.length);
  const word = text.slice(from).match(/^[^\s,()]+/)?.[0].length ?? 0;
  const start = from === text.length ? Math.max(0, from - 1) : from;
  return [{ from: start, to: Math.max(start + 1, from + word), severity: "error", message: error.message }];
}

/** What is selected in a field, for a document of this length. */
function selectionOf(field: HTMLInputElement, length: number): { anchor: number; head: number } {
  const start = Math.min(field.selectionStart ?? length, length);
  const end = Math.min(field.selectionEnd ?? length, length);
  return field.selectionDirection === "backward" ? { anchor: end, head: start } : { anchor: start, head: end };
}

export default function Editor(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  // The editor is made once and reads the newest properties from here. Layout effects: between what React shows and what the editor
  // holds no key must be pressed.
  const latest = useRef(props);
  useLayoutEffect(() => {
    latest.current = props;
  });

  useLayoutEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const enter = () => {
      if (completionStatus(editor.state) === "active") return false;
      latest.current.onEnter?.();
      return true;
    };
    const { value, autoFocus, standIn } = latest.current;
    const left = standIn.current;
    standIn.current = null;
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: value,
        selection: left ? selectionOf(left, value.length) : undefined,
        extensions: [
          history(),
          Prec.high(keymap.of([{ key: "Enter", run: enter }, { key: "Ctrl-Space", run: startCompletion }])),
          keymap.of([...completionKeymap, ...defaultKeymap.filter((binding) => binding.key !== "Enter"), ...historyKeymap]),
          conditionLanguage,
          syntaxHighlighting(colours),
          autocompletion({ override: [completer(() => latest.current.signals, latest.current.use)], icons: false, interactionDelay: 0 }),
          linter(null),
          theme,
          EditorView.lineWrapping,
          typeOver,
          placeholder("signal > value and …"),
          EditorView.contentAttributes.of({ "aria-label": latest.current.label, autocapitalize: "off", spellcheck: "false" }),
          EditorState.transactionFilter.of((transaction) => (transaction.newDoc.lines > 1 ? [] : transaction)),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    if (left || autoFocus) editor.focus();
    return () => editor.destroy();
  }, []);

  useLayoutEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === props.value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: props.value } });
  }, [props.value]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    editor.dispatch(setDiagnostics(editor.state, diagnosticsOf(editor.state.doc.toString(), props.error)));
  }, [props.error]);

  return <div ref={host} data-condition-editor="" />;
}
