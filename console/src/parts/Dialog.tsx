// Dialogs. Escape and the close button leave without doing anything; the focus returns to where it was.
import { useState, type ReactNode } from "react";
import { Dialog as AriaDialog } from "react-aria-components/Dialog";
import { Heading } from "react-aria-components/Heading";
import { Modal, ModalOverlay } from "react-aria-components/Modal";

import { Button } from "./Button";
import styles from "./Dialog.module.css";
import { TextField } from "./Field";
import { Form } from "./Form";

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  /** Cannot be left without an answer: no close button, no Escape. */
  mustAnswer?: boolean;
  wide?: boolean;
  children: ReactNode;
}

export function Dialog({ title, isOpen, onClose, mustAnswer = false, wide = false, children }: DialogProps) {
  return (
    <ModalOverlay className={styles.backdrop} isOpen={isOpen} onOpenChange={(open) => !open && onClose()} isKeyboardDismissDisabled={mustAnswer}>
      <Modal className={`${styles.modal} ${wide ? styles.wide : ""}`}>
        <AriaDialog className={styles.dialog} role={mustAnswer ? "alertdialog" : "dialog"}>
          <header className={styles.header}>
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            {!mustAnswer && (
              <Button kind="quiet" icon="close" iconOnly onPress={onClose}>
                Close
              </Button>
            )}
          </header>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

interface ConfirmProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  /** What the button says: the act itself, never "OK". */
  act: string;
  onConfirm: () => Promise<void>;
  /** What goes, one line each. */
  goes?: string[];
  /** Must be typed first, for what cannot be undone and is large. */
  typed?: string;
  children?: ReactNode;
}

/** Asks before something that cannot be undone, and says what goes with it. */
export function ConfirmDialog({ title, isOpen, onClose, act, onConfirm, goes, typed, children }: ConfirmProps) {
  const [text, setText] = useState("");
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <Form
        submit={act}
        kind="danger"
        isDisabled={typed !== undefined && text !== typed}
        beside={<Button onPress={onClose}>Cancel</Button>}
        onSubmit={async () => {
          await onConfirm();
          onClose();
        }}
      >
        {children}
        {goes && (
          <div>
            <p>This deletes:</p>
            <ul className={styles.goes}>
              {goes.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          </div>
        )}
        {typed !== undefined && <TextField name="typed" label={`Type ${typed} to go on`} value={text} onChange={setText} code autoComplete="off" />}
      </Form>
    </Dialog>
  );
}
