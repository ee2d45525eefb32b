// All shortcuts that work at the moment.
import { useStore } from "../api/store";
import { Dialog } from "../parts/Dialog";
import { Switch } from "../parts/Field";
import { active, setSingleKeys, singleKeys } from "./shortcuts";
import styles from "./ShortcutHelp.module.css";

export function ShortcutHelp({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const shortcuts = useStore(active);
  const single = useStore(singleKeys);
  const groups = [...new Set(shortcuts.map((shortcut) => shortcut.group))];
  return (
    <Dialog title="Shortcuts" isOpen={isOpen} onClose={onClose} wide>
      <div className={styles.groups}>
        {groups.map((group) => (
          <section key={group} aria-label={group}>
            <h3>{group}</h3>
            <dl className={styles.list}>
              {shortcuts
                .filter((shortcut) => shortcut.group === group)
                .map((shortcut) => (
                  <div key={shortcut.keys}>
                    <dt>{shortcut.name}</dt>
                    <dd>
                      {shortcut.keys.split("+").map((key) => (
                        <kbd key={key}>{key}</kbd>
                      ))}
                    </dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
      <Switch isSelected={single} onChange={setSingleKeys} hint="Turn them off if you dictate, or strike keys by chance. This help is then behind the button in the navigation.">
        Shortcuts of a single key
      </Switch>
    </Dialog>
  );
}
