// Text that strangers wrote. It is always text, never markup; invisible and direction-changing characters are shown by their code
// points so that they cannot disguise anything; long texts are folded.
import { useState } from "react";

import { Button } from "./Button";
import styles from "./Foreign.module.css";
import { count } from "./Values";

/** Controls, zero-width and bidirectional marks, line and paragraph separators, and tags. Tab and line feed are left alone. */
const HIDDEN = /([\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB]|\u{E0001}|[\u{E0020}-\u{E007F}])/u;
const EVERY_HIDDEN = new RegExp(HIDDEN, "gu");
const FOLDED = 600;

const codePoint = (character: string): string => `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The text with every hidden character visible. For attributes, which are text alone, there is `plainForeign`. */
export function Visible({ text }: { text: string }) {
  return (
    <>
      {text.split(EVERY_HIDDEN).map((piece, index) =>
        index % 2 === 1 ? (
          <span key={index} className={styles.hidden}>
            {codePoint(piece)}
          </span>
        ) : (
          piece
        ),
      )}
    </>
  );
}

/** The text for titles and labels: hidden characters as their code points, at most `length` characters. */
export function plainForeign(text: string, length = 120): string {
  const shown = text.replaceAll(EVERY_HIDDEN, (character) => `⟨${codePoint(character)}⟩`).replaceAll(/\s+/g, " ");
  return shown.length > length ? `${shown.slice(0, length)}…` : shown;
}

/** A short foreign text inside of a line, such as an id or a name. */
export function ForeignInline({ text, length = 200 }: { text: string; length?: number }) {
  return <bdi className={styles.inline}>{plainForeign(text, length)}</bdi>;
}

/** A foreign text of any length; what is beyond the fold is shown on demand. */
export function Foreign({ text, code = false }: { text: string; code?: boolean }) {
  const [open, setOpen] = useState(false);
  const folds = text.length > FOLDED + 200;
  const shown = folds && !open ? text.slice(0, FOLDED) : text;
  return (
    <div className={styles.foreign}>
      <div dir="auto" className={code ? styles.code : styles.text}>
        <Visible text={shown} />
        {folds && !open && "…"}
      </div>
      {folds && (
        <Button kind="quiet" onPress={() => setOpen(!open)} aria-expanded={open}>
          {open ? "Show less" : `Show all ${count(text.length)} characters`}
        </Button>
      )}
    </div>
  );
}
