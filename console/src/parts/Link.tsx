// Links to other screens. `to` is a path under /console; a link that looks like a button takes `kind`.
import { Link as RouterLink, type LinkProps } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { useTabIndex } from "./arrow-focus";
import buttonStyles from "./Button.module.css";
import { ForeignInline } from "./Foreign";
import { Icon, type IconName } from "./Icon";
import styles from "./Link.module.css";

interface Props {
  to: string;
  search?: Record<string, string>;
  children: ReactNode;
  kind?: "text" | "plain" | "primary" | "quiet";
  icon?: IconName;
}

export function Link({ to, search, children, kind = "text", icon }: Props) {
  const className = kind === "text" ? styles.link : `${buttonStyles.button} ${buttonStyles[kind]}`;
  return (
    <RouterLink to={to as LinkProps["to"]} search={search as LinkProps["search"]} className={className} preload="intent" tabIndex={useTabIndex()}>
      {icon && <Icon name={icon} />}
      {children}
    </RouterLink>
  );
}

/** The address of an object's screen. Object ids may contain anything, slashes too. */
export const objectPath = (objectId: string): string => `/console/objects/${encodeURIComponent(objectId)}`;

/** A link to an object's screen by its name, or by its id where it has none: strangers wrote both. */
export function ObjectLink({ id, name, length = 120 }: { id: string; name?: string; length?: number }) {
  return (
    <Link to={objectPath(id)}>
      <ForeignInline text={name ?? id} length={length} />
    </Link>
  );
}
