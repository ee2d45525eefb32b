// A short word that something has happened. Never the only place for what one needs to know: it goes by itself.
import { Store, useStore } from "../api/store";
import { Button } from "./Button";
import { Icon } from "./Icon";
import styles from "./Toast.module.css";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
  undo?: () => void;
}

const toasts = new Store<Toast[]>([]);
const SHOWN_MS = 6000;
let next = 0;

const dismiss = (id: number) => toasts.set(toasts.get().filter((toast) => toast.id !== id));

/** Says that something has happened; with `undo`, for as long as it is shown. */
export function toast(text: string, options: { tone?: "good" | "bad"; undo?: () => void } = {}): void {
  const id = next++;
  toasts.set([...toasts.get().slice(-2), { id, text, tone: options.tone ?? "good", undo: options.undo }]);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

export function Toasts() {
  const shown = useStore(toasts);
  return (
    <div className={styles.region} role="status" aria-live="polite">
      {shown.map((item) => (
        <div key={item.id} className={styles.toast} data-tone={item.tone}>
          <Icon name={item.tone} />
          <span>{item.text}</span>
          {item.undo && (
            <Button
              kind="quiet"
              onPress={() => {
                item.undo?.();
                dismiss(item.id);
              }}
            >
              Undo
            </Button>
          )}
          <Button kind="quiet" icon="close" iconOnly onPress={() => dismiss(item.id)}>
            Dismiss
          </Button>
        </div>
      ))}
    </div>
  );
}
