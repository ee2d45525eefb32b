// The addresses of the console. Screens behind sign-in come from the registry; the pages before it are listed here.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from "@tanstack/react-router";

import { ApiError } from "./api/error";
import { meQuery, queries, stateQuery } from "./api/session";
import { Link } from "./parts/Link";
import { Screen } from "./parts/Screen";
import { Empty, Failed, Skeleton } from "./parts/States";
import { Toasts } from "./parts/Toast";
import { SCREENS } from "./screens/registry";
import { Shell } from "./shell/Shell";
import { ThresholdPage } from "./shell/ThresholdPage";

const root = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <Toasts />
    </>
  ),
  notFoundComponent: () => (
    <ThresholdPage title="There is no such page">
      <p>The address may be old or mistyped.</p>
      <Link to="/console" kind="plain">
        To the console
      </Link>
    </ThresholdPage>
  ),
});

/** Only an address of the console itself is returned to. */
export const safeNext = (next: unknown): string => (typeof next === "string" && /^\/console\/[^/\\]/.test(next) ? next : "/console");

/** Lets members in; sends everybody else to sign in, or on an empty install to the form that opens the first account. */
async function requireSession(href: string) {
  try {
    return await queries.ensureQueryData(meQuery);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    const state = await queries.fetchQuery(stateQuery);
    if (state.empty) throw redirect({ to: "/console/register" as string });
    throw redirect({ to: "/console/sign-in" as string, search: { next: href } as never });
  }
}

const index = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/console" as string });
  },
});

const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: Shell,
  beforeLoad: ({ location }) => requireSession(location.href),
  errorComponent: ({ error, reset }) => (
    <ThresholdPage title="The console could not be loaded">
      <Failed error={error} retry={reset} />
    </ThresholdPage>
  ),
});

const screens = SCREENS.map((screen) =>
  createRoute({
    getParentRoute: () => inside,
    path: screen.path,
    component: lazyRouteComponent(screen.load),
    errorComponent: ({ error, reset }) => (
      <Screen title={screen.name}>
        <Failed error={error} retry={reset} />
      </Screen>
    ),
  }),
);

/** `/console` itself, and every address under it that has no screen. */
const elsewhere = createRoute({
  getParentRoute: () => inside,
  path: "/console/$",
  beforeLoad: async ({ params }) => {
    if ((params as { _splat?: string })._splat) return;
    const me = await queries.ensureQueryData(meQuery);
    throw redirect({ to: (me.onboarded ? "/console/overview" : "/console/first-steps") as string });
  },
  component: () => (
    <Screen title="There is no such page">
      <Empty icon="explore" title="Nothing is at this address" action={<Link to="/console/overview" kind="plain">To the overview</Link>}>
        The address may be old or mistyped.
      </Empty>
    </Screen>
  ),
});

/** Pages that need no session. */
const THRESHOLD: [string, () => Promise<{ default: React.ComponentType }>][] = [
  ["/console/sign-in", () => import("./screens/sign-in/SignIn")],
  ["/console/register", () => import("./screens/register/Register")],
  ["/console/forgot", () => import("./screens/forgot/Forgot")],
  ["/console/reset", () => import("./screens/reset/Reset")],
  ["/console/verify", () => import("./screens/verify/Verify")],
  ["/console/confirm", () => import("./screens/recipients/Confirm")],
  ["/console/withdraw", () => import("./screens/recipients/Withdraw")],
  ["/console/invitation", () => import("./screens/invitation/Invitation")],
  ["/console/oauth/$provider", () => import("./screens/sign-in/ProviderReturn")],
];
const threshold = THRESHOLD.map(([path, load]) => createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) }));

export const router = createRouter({
  routeTree: root.addChildren([index, ...threshold, inside.addChildren([...screens, elsewhere])]),
  // Search parameters are plain text: a token of digits stays as it is.
  parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
  stringifySearch: (search) => {
    const entries = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
    return entries.length === 0 ? "" : `?${new URLSearchParams(entries as [string, string][])}`;
  },
  defaultPendingComponent: () => <Skeleton lines={8} />,
  scrollRestoration: true,
  defaultPreloadStaleTime: 0,
});
