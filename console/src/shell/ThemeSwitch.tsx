// System, light or dark.
import { ToggleButton } from "react-aria-components/ToggleButton";
import { ToggleButtonGroup } from "react-aria-components/ToggleButtonGroup";

import { useStore } from "../api/store";
import { setTheme, theme, type Theme } from "./theme";
import styles from "./ThemeSwitch.module.css";

const NAMES: [Theme, string][] = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function ThemeSwitch() {
  const selected = useStore(theme);
  return (
    <ToggleButtonGroup
      aria-label="Theme"
      className={styles.group}
      selectionMode="single"
      disallowEmptySelection
      selectedKeys={[selected]}
      onSelectionChange={(keys) => setTheme([...keys][0] as Theme)}
    >
      {NAMES.map(([id, name]) => (
        <ToggleButton key={id} id={id} className={styles.option}>
          {name}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}
