// What every story starts from: a running service, a browser that reports violations of the content security policy, and people
// with accounts of their own.
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test as base, type APIRequest, type APIRequestContext, type Locator, type Page, type Request } from "@playwright/test";

import { fillAccount } from "./sample";
import { fillConfiguration, type Configuration } from "./sample-configuration";
import { Service } from "./service";

export interface Person {
  email: string;
  password: string;
  /** Requests with the person's session. */
  api: APIRequestContext;
}

interface Worlds {
  /** Settings of the service beyond those of every story: `test.use({ settings: … })`. Every other value is one more service to start. */
  settings: Record<string, string>;
  service: Service;
  /** An account that has something to show; do not change it. */
  sample: Sample;
}

export interface Sample extends Configuration {
  cookies: Awaited<ReturnType<APIRequestContext["storageState"]>>["cookies"];
  objectId: string;
}

/** The address of a screen with the sample's ids in place of its parameters. */
export const addressIn = (path: string, sample: Sample): string =>
  path.replace("$objectId", encodeURIComponent(sample.objectId)).replace("$key", "off_platform").replace("$ruleId", sample.ruleId).replace("$endpointId", sample.endpointId);

interface Stage {
  /** Opens an account of its own, by the API. */
  register: (name?: string, email?: string) => Promise<Person>;
  /** An account, signed in in `page`. */
  person: Person;
}

/** The word counter answers at once, so that stories need not wait for a model in a debug build. */
export const WORDS = { AUSPEX_ANALYZER: "words" };
/** For the few stories that are about what the embedded model says: `test.use({ settings: MODEL })`. On a busy machine it is slow. */
export const MODEL = { AUSPEX_ANALYZER_TIMEOUT_MS: "60000" };

export const PASSWORD = "correct horse battery staple";
/** What the page logs when the content security policy has stopped something. */
const VIOLATION = "policy violation:";
/** A verdict of the embedded model may take long. */
const REQUEST_MS = 90_000;
/** Screens are loaded within. */
const SETTLE_MS = 15_000;
let accounts = 0;

/** Opens an account by the API. */
export async function registerAt(service: Service, requests: APIRequest, name = "Acme", email = `person-${process.pid}-${accounts++}@example.com`): Promise<Person> {
  const headers = { "X-Auspex-Session": "cookie", Origin: service.origin };
  const api = await requests.newContext({ baseURL: service.origin, extraHTTPHeaders: headers, timeout: REQUEST_MS });
  const answer = await api.post("/auth/console/register", { data: { tenant_name: name, email, password: PASSWORD } });
  expect(answer.status(), await answer.text()).toBe(201);
  return { email, password: PASSWORD, api };
}

/** Collects what goes wrong in a page: errors, and what the content security policy has stopped. */
export async function problemsOf(page: Page): Promise<string[]> {
  const problems: string[] = [];
  watchRequests(page);
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (message.text().startsWith(VIOLATION)) problems.push(message.text());
  });
  await page.addInitScript((prefix) => {
    document.addEventListener("securitypolicyviolation", (event) => {
      const element = event.target instanceof Element ? event.target.outerHTML.slice(0, 200) : "";
      console.log(`${prefix} ${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}:${event.columnNumber} ${element}`);
    });
  }, VIOLATION);
  return problems;
}

export const test = base.extend<Stage, Worlds>({
  settings: [WORDS, { scope: "worker", option: true }],
  service: [
    async ({ settings }, use) => {
      const service = await Service.start(settings);
      await use(service);
      await service.stop();
    },
    { scope: "worker", timeout: 60_000 },
  ],
  sample: [
    async ({ service, playwright }, use) => {
      const api = await registerAt(service, playwright.request);
      const configuration = await fillConfiguration(api.api, service.origin);
      const objectId = await fillAccount(api.api);
      await use({ cookies: (await api.api.storageState()).cookies, objectId, ...configuration });
      await api.api.dispose();
    },
    { scope: "worker", timeout: 120_000 },
  ],
  baseURL: async ({ service }, use) => use(service.origin),
  page: async ({ page }, use) => {
    const problems = await problemsOf(page);
    await use(page);
    expect(problems, "errors of the page").toEqual([]);
  },
  register: async ({ service, playwright }, use) => {
    const contexts: APIRequestContext[] = [];
    await use(async (name, email) => {
      const person = await registerAt(service, playwright.request, name, email);
      contexts.push(person.api);
      return person;
    });
    for (const context of contexts) await context.dispose();
  },
  person: async ({ register, page }, use) => {
    const person = await register();
    const { cookies } = await person.api.storageState();
    await page.context().addCookies(cookies);
    await use(person);
  },
});

export { expect };

/** Types into a field that is found by its label, as a keyboard does. */
export async function type(page: Page, label: string, text: string): Promise<void> {
  const field = page.locator("input, textarea").and(page.getByLabel(label, { exact: true }));
  await field.focus();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type(text);
}

/** The editor of a condition, once it has taken the place of the plain field. */
export const conditionEditor = (page: Page): Locator => page.locator("[data-condition-editor]").getByRole("textbox");

/** Presses Tab until something of this role and name has the focus, then Enter. */
export async function tabTo(page: Page, role: "button" | "link" | "menuitem" | "tab", name: string | RegExp): Promise<void> {
  const target = page.getByRole(role, { name });
  await expect(target.first()).toBeVisible();
  // The shorter way: backward for what stands before the focus.
  const key = await target.first().evaluate((element) => {
    const focused = document.activeElement;
    if (!focused || focused === document.body) return "Tab";
    return element.compareDocumentPosition(focused) & Node.DOCUMENT_POSITION_FOLLOWING ? "Shift+Tab" : "Tab";
  });
  // To look for it by role before each press would take most of a story's time.
  let element = await target.first().elementHandle();
  for (let presses = 0; presses < 80; presses++) {
    const found = await element?.evaluate((node) => (node.isConnected ? node === document.activeElement : undefined));
    if (found) return;
    if (found === undefined) element = await target.first().elementHandle();
    else await page.keyboard.press(key);
  }
  throw new Error(`the ${role} ${name} cannot be reached with Tab`);
}

export async function press(page: Page, role: "button" | "link", name: string | RegExp): Promise<void> {
  await tabTo(page, role, name);
  await page.keyboard.press("Enter");
}

/** Turns a radio button or a checkbox on with the space bar. */
export async function choose(page: Page, role: "radio" | "checkbox", name: string | RegExp): Promise<void> {
  const target = page.getByRole(role, { name });
  await target.focus();
  await page.keyboard.press("Space");
  await expect(target).toBeChecked();
}

/** How often in a row a page must have nothing open, each time after it has shown what came. */
const QUIET_TIMES = 3;
const QUIET_MS = 20;
const openRequests = new WeakMap<Page, Set<Request>>();

/** Counts the open requests of a page from now on, for `settled`. */
function watchRequests(page: Page): Set<Request> {
  const known = openRequests.get(page);
  if (known) return known;
  const open = new Set<Request>();
  openRequests.set(page, open);
  page.on("request", (request) => open.add(request));
  page.on("requestfinished", (request) => open.delete(request));
  page.on("requestfailed", (request) => open.delete(request));
  page.on("framenavigated", (frame) => {
    // The requests of the page before have nobody who waits for them.
    if (frame === page.mainFrame()) for (const request of open) if (request.isNavigationRequest()) open.delete(request);
  });
  return open;
}

/** Waits until whatever a page loads has come. `networkidle` would wait for half a second each time. */
export async function settled(page: Page): Promise<void> {
  const open = watchRequests(page);
  await page.waitForLoadState("load");
  await expect(page.getByText("Loading", { exact: true })).toHaveCount(0);
  const end = Date.now() + SETTLE_MS;
  for (let quiet = 0; quiet < QUIET_TIMES; ) {
    // Counted in frames of the page, so that a busy machine takes longer.
    await page.evaluate((pause) => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, pause))), QUIET_MS);
    quiet = open.size === 0 ? quiet + 1 : 0;
    if (Date.now() > end) throw new Error(`still open: ${[...open].map((request) => request.url()).join(", ")}`);
  }
}

/** Opens an address and waits for its heading. */
export async function open(page: Page, path: string, heading: string | RegExp): Promise<void> {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1, name: heading })).toBeVisible();
}

/** Nothing is wrong with the page as it is, in the light and in the dark theme. */
export async function expectAccessibleInBothThemes(page: Page): Promise<void> {
  await expectAccessible(page);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await expectAccessible(page, "contrast");
  await page.emulateMedia({ colorScheme: "light" });
}

const STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Nothing that axe knows of is wrong with the page. With `contrast` alone, only what differs between the themes is looked at. */
export async function expectAccessible(page: Page, what: "everything" | "contrast" = "everything"): Promise<void> {
  // To preload the sheets of shadow roots, axe would insert style elements, which the policy of the page forbids.
  // There are no frames, for which alone it would open another page each time; and what is right need not be described.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ preload: false, resultTypes: ["violations"] });
  const { violations } = await (what === "contrast" ? axe.withRules(["color-contrast"]) : axe.withTags(STANDARDS)).analyze();
  const found = violations.map((violation) => `${violation.impact}: ${violation.id}: ${violation.help}\n${violation.nodes.map((node) => `  ${node.html.slice(0, 200)}\n  ${node.failureSummary}`).join("\n")}`);
  expect(found, found.join("\n")).toEqual([]);
}
