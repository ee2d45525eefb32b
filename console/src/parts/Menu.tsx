// A menu of actions behind one button.
import { Button as AriaButton } from "react-aria-components/Button";
import { Menu as AriaMenu, MenuItem, MenuTrigger } from "react-aria-components/Menu";
import { Popover } from "react-aria-components/Popover";

import buttonStyles from "./Button.module.css";
import { Icon, type IconName } from "./Icon";
import styles from "./Menu.module.css";

export interface MenuAction {
  id: string;
  name: string;
  icon?: IconName;
  danger?: boolean;
  run: () => void;
}

/** `label` names the button: what the actions are about. */
export function ActionMenu({ label, actions }: { label: string; actions: MenuAction[] }) {
  return (
    <MenuTrigger>
      <AriaButton aria-label={label} className={`${buttonStyles.button} ${buttonStyles.quiet} ${buttonStyles.iconOnly}`}>
        <Icon name="more" />
      </AriaButton>
      <Popover className={styles.popover} placement="bottom end">
        <AriaMenu className={styles.menu} onAction={(id) => actions.find((action) => action.id === id)?.run()}>
          {actions.map((action) => (
            <MenuItem key={action.id} id={action.id} className={styles.item} data-danger={action.danger || undefined}>
              {action.icon && <Icon name={action.icon} />}
              {action.name}
            </MenuItem>
          ))}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}
