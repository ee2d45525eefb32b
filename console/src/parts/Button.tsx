// The button: `primary` for the one thing a screen is for, `danger` for what cannot be undone, `quiet` inside of lists.
import { Button as AriaButton, type ButtonProps as AriaProps } from "react-aria-components/Button";

import styles from "./Button.module.css";
import { Icon, type IconName } from "./Icon";

export interface ButtonProps extends Omit<AriaProps, "children" | "className"> {
  kind?: "primary" | "plain" | "danger" | "quiet";
  icon?: IconName;
  /** What the button does. Read out also where only the icon is shown. */
  children: string;
  /** Shows only the icon; the text is its name. */
  iconOnly?: boolean;
}

export function Button({ kind = "plain", icon, iconOnly = false, children, ...rest }: ButtonProps) {
  return (
    <AriaButton {...rest} aria-label={iconOnly ? children : rest["aria-label"]} className={`${styles.button} ${styles[kind]} ${iconOnly ? styles.iconOnly : ""}`}>
      {({ isPending }) => (
        <>
          {isPending ? <span className={styles.spinner} aria-hidden="true" /> : icon && <Icon name={icon} />}
          {!iconOnly && children}
        </>
      )}
    </AriaButton>
  );
}
