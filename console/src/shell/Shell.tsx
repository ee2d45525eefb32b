// What surrounds every screen: navigation, who is signed in, the theme, the state of the connection, and the dialogs that a request
// may need.
import { Outlet, useRouter, useRouterState } from "@tanstack/react-router";
import { Suspense, useEffect, useMemo, useState } from "react";

import { may } from "../api/may";
import { roleOf, signOut, useMe } from "../api/session";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { Skeleton } from "../parts/States";
import { toast } from "../parts/Toast";
import { SCREENS, type ScreenEntry } from "../screens/registry";
import { ConnectionBanner } from "./ConnectionBanner";
import mark from "./mark.svg";
import { Navigation } from "./Navigation";
import { ProofDialog } from "./ProofDialog";
import styles from "./Shell.module.css";
import { SignInDialog } from "./SignInDialog";
import { ShortcutHelp } from "./ShortcutHelp";
import { useShortcuts, type Shortcut } from "./shortcuts";
import { ThemeSwitch } from "./ThemeSwitch";

/** The screens that the member sees in the navigation. */
function useVisibleScreens(): ScreenEntry[] {
  const me = useMe();
  const role = roleOf(me);
  return useMemo(
    () => SCREENS.filter((screen) => screen.navigation && (!screen.needs || may(role, screen.needs)) && (!screen.operators || me.operator)),
    [role, me.operator],
  );
}

export function Shell() {
  const me = useMe();
  const screens = useVisibleScreens();
  const router = useRouter();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  useEffect(() => setMenu(false), [path]);

  const shortcuts: Shortcut[] = screens.map((screen) => ({
    keys: `Alt+Shift+${screen.navigation?.key}`,
    name: screen.name,
    group: "Go to",
    run: () => void router.navigate({ to: screen.path as string }),
  }));
  useShortcuts([...shortcuts, { keys: "?", name: "Show the shortcuts", group: "Everywhere", run: () => setHelp(true) }]);

  return (
    <div className={styles.shell}>
      <a href="#content" className={styles.skip}>
        Skip to the content
      </a>
      <header className={styles.bar}>
        <Button kind="quiet" icon="menu" iconOnly aria-expanded={menu} aria-controls="navigation" onPress={() => setMenu(!menu)}>
          Navigation
        </Button>
        <img src={mark} alt="" width={24} height={24} />
        <span>Auspex</span>
      </header>
      <aside className={styles.side} id="navigation" aria-label="Console" data-open={menu || undefined}>
        <div className={styles.brand}>
          <img src={mark} alt="" width={28} height={28} />
          <div>
            <span className={styles.name}>Auspex</span>
            <span className={styles.tenant} title={me.tenant_name}>
              {me.tenant_name}
            </span>
          </div>
        </div>
        <Navigation screens={screens} />
        <div className={styles.foot}>
          <a href="/docs" className={styles.docs}>
            <Icon name="external" /> API reference
          </a>
          <ThemeSwitch />
          <div className={styles.who}>
            <span title={me.email}>{me.email}</span>
            <Button kind="quiet" icon="leave" iconOnly onPress={() => void signOut().catch(() => toast("You could not be signed out. Try again.", { tone: "bad" }))}>
              Sign out
            </Button>
          </div>
          <Button kind="quiet" aria-keyshortcuts="?" onPress={() => setHelp(true)}>
            Shortcuts (?)
          </Button>
        </div>
      </aside>
      <main id="content" className={styles.content} tabIndex={-1}>
        <ConnectionBanner />
        <Suspense fallback={<Skeleton lines={8} />}>
          <Outlet />
        </Suspense>
      </main>
      <ShortcutHelp isOpen={help} onClose={() => setHelp(false)} />
      <SignInDialog />
      <ProofDialog />
    </div>
  );
}
