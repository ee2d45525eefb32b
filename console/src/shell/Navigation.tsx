// The list of screens, by group.
import { Link, type LinkProps } from "@tanstack/react-router";

import { Icon } from "../parts/Icon";
import { GROUPS, type ScreenEntry } from "../screens/registry";
import styles from "./Shell.module.css";

export function Navigation({ screens }: { screens: readonly ScreenEntry[] }) {
  return (
    <nav aria-label="Screens" className={styles.navigation}>
      {GROUPS.map((group) => {
        const members = screens.filter((screen) => screen.navigation?.group === group);
        return members.length === 0 ? null : (
          <ul key={group} aria-label={group}>
            {members.map((screen) => (
              <li key={screen.id}>
                <Link
                  to={screen.path as LinkProps["to"]}
                  className={styles.screen}
                  activeProps={{ "aria-current": "page" }}
                  aria-keyshortcuts={`Alt+Shift+${screen.navigation?.key}`}
                  preload="intent"
                >
                  {screen.navigation && <Icon name={screen.navigation.icon} />}
                  {screen.name}
                </Link>
              </li>
            ))}
          </ul>
        );
      })}
    </nav>
  );
}
