import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { binary, peer } from "./service";
import { expect, expectAccessibleInBothThemes, open, press, test, type } from "./stage";

const TITLE = "Sign in on a machine";
/** Runs a command in a terminal of its own, and ends with its exit code. */
const IN_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
const COMPLETE = { redirect_uri: "http://127.0.0.1:4711/callback", state: "0123456789abcdef".repeat(4), challenge: `Kq7_x2Zd${"A".repeat(35)}`, name: "auspex on workstation" };

/** A machine on which somebody has started `auspex login`, with an opener that only notes which page it is to open. */
class Machine {
  readonly home = mkdtempSync(join(tmpdir(), "auspex-machine-"));
  readonly #env: Record<string, string>;
  ended: Promise<number | null> = Promise.resolve(null);
  output = "";

  constructor(origin: string) {
    const opener = join(this.home, "opener");
    writeFileSync(opener, `#!/bin/sh\nprintf '%s' "$1" > '${join(this.home, "opened")}'\n`);
    chmodSync(opener, 0o755);
    this.#env = { HOME: this.home, PATH: process.env.PATH ?? "", TERM: "xterm", AUSPEX_URL: origin, BROWSER: opener };
  }

  /** Starts the command; returns the address of the page that it opens. */
  async login(): Promise<string> {
    const child = spawn(peer("bin", "python"), ["-c", IN_TERMINAL, binary(), "login"], { env: this.#env, cwd: this.home, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (text: Buffer) => (this.output += text.toString()));
    child.stderr.on("data", (text: Buffer) => (this.output += text.toString()));
    this.ended = new Promise((resolve) => child.once("exit", resolve));
    const opened = join(this.home, "opened");
    const address = () => (existsSync(opened) ? readFileSync(opened, "utf8") : "");
    await expect.poll(address, { message: "the page is opened" }).toContain("&name=auspex+on+");
    return address();
  }

  run(...args: string[]) {
    return spawnSync(binary(), args, { env: this.#env, cwd: this.home, encoding: "utf8" });
  }
}

const machines = test.extend<{ machine: Machine }>({
  machine: async ({ service }, use) => {
    const machine = new Machine(service.origin);
    await use(machine);
    rmSync(machine.home, { recursive: true, force: true });
  },
});

const keysOf = async (api: { get: (path: string) => Promise<{ json: () => Promise<unknown> }> }) => ((await (await api.get("/v1/api_keys")).json()) as { api_keys: { name: string }[] }).api_keys;

machines("auspex login gets a key after the member has agreed in the browser", async ({ page, person, service, machine }) => {
  const address = await machine.login();
  await open(page, address, TITLE);
  const challenge = new URL(address).searchParams.get("challenge") ?? "";
  const check = `${challenge.slice(0, 4)}-${challenge.slice(4, 8)}`;
  await expect(page.getByText(check, { exact: true })).toBeVisible();
  expect(machine.output).toContain(check);
  await expect(page.getByText(/^auspex on /)).toBeVisible();
  await expect(page.getByText(/Never give anybody the address that the browser shows afterwards\./)).toBeVisible();
  await expect(page.getByText("change signals, rules, webhooks, keys and settings")).toBeVisible();
  await expectAccessibleInBothThemes(page);
  expect(await keysOf(person.api), "nothing is made before anybody has agreed").toEqual([]);
  await press(page, "button", "Allow");
  await expect(page.getByText("This machine is signed in.")).toBeVisible();
  expect(await machine.ended, machine.output).toBe(0);
  expect(machine.output).toContain("Signed in to Acme");
  expect(statSync(join(machine.home, ".config/auspex/credentials.toml")).mode & 0o777).toBe(0o600);
  const whoami = machine.run("whoami", "--json");
  expect((JSON.parse(whoami.stdout) as { tenant_name: string }).tenant_name, whoami.stderr).toBe("Acme");
  const [key] = await keysOf(person.api);
  expect(key?.name).toContain("auspex on ");
  const log = await person.api.get("/v1/audit_log?action=api_key.created");
  const { entries } = (await log.json()) as { entries: { actor: { name: string } }[] };
  expect(entries.map((entry) => entry.actor.name)).toEqual([person.email]);
  await expect.poll(() => service.mails(person.email).filter((mail) => mail.includes(key?.name ?? "no key")).length).toBe(1);
  // The address has done its work: its code is used up, and nobody listens any more.
  expect(machine.run("logout").status).toBe(0);
  expect(await keysOf(person.api)).toEqual([]);
});

machines("a refusal reaches the machine too, and no key is made", async ({ page, person, machine }) => {
  await open(page, await machine.login(), TITLE);
  await press(page, "button", "Refuse");
  await expect(page.getByText("This machine got no key.")).toBeVisible();
  expect(await machine.ended, machine.output).toBe(3);
  expect(machine.output).toContain("refused in the browser");
  expect(await keysOf(person.api)).toEqual([]);
});

test("on the console's own host a refusal goes nowhere, since the listener would get the session", async ({ page, person, service }) => {
  const here = new URL(service.origin);
  here.hostname = "127.0.0.1";
  const { cookies } = await person.api.storageState();
  await page.context().addCookies(cookies.map(({ name, value }) => ({ name, value, url: here.origin })));
  const left: string[] = [];
  page.on("request", (request) => {
    if (request.url().startsWith(COMPLETE.redirect_uri)) left.push(request.url());
  });
  await open(page, `${here.origin}/console/machine-login?${new URLSearchParams(COMPLETE)}`, TITLE);
  await press(page, "button", "Refuse");
  await expect(page.getByText("You can close this page. The command in the terminal ends by itself after a few minutes.")).toBeVisible();
  await expectAccessibleInBothThemes(page);
  expect(left).toEqual([]);
  expect(await keysOf(person.api)).toEqual([]);
});

test("who is not signed in signs in first and comes back to the question", async ({ page, register }) => {
  const person = await register();
  await page.goto(`/console/machine-login?${new URLSearchParams(COMPLETE)}`);
  await expect(page).toHaveURL(/\/console\/sign-in\?next=/);
  await type(page, "Email", person.email);
  await type(page, "Password", person.password);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: TITLE })).toBeVisible();
  await expect(page.getByText("auspex on workstation")).toBeVisible();
  await expect(page.getByText("Kq7_-x2Zd", { exact: true })).toBeVisible();
});

test("the name of a machine cannot disguise itself", async ({ page, person }) => {
  void person;
  await open(page, `/console/machine-login?${new URLSearchParams({ ...COMPLETE, name: "<b>safe</b>\u202Eelif" })}`, TITLE);
  await expect(page.getByText("<b>safe</b>⟨U+202E⟩elif")).toBeVisible();
});

test("an address that auspex login did not make asks nothing", async ({ page, person }) => {
  void person;
  const wrong: Partial<typeof COMPLETE>[] = [
    { redirect_uri: "https://elsewhere.example/callback" },
    { redirect_uri: "http://127.0.0.1:4711@elsewhere.example/callback" },
    { redirect_uri: "http://127.0.0.1.elsewhere.example:4711/callback" },
    { redirect_uri: "http://localhost:4711/callback" },
    { redirect_uri: "http://127.0.0.1:4711/callback?to=elsewhere" },
    { redirect_uri: "http://127.0.0.1:99999/callback" },
    { redirect_uri: "javascript:alert(1)" },
    { state: "short" },
    { challenge: "short" },
    { name: " " },
  ];
  for (const change of wrong) {
    await open(page, `/console/machine-login?${new URLSearchParams({ ...COMPLETE, ...change })}`, TITLE);
    await expect(page.getByText("This address is not complete")).toBeVisible();
    await expect(page.getByRole("button", { name: "Allow" })).toHaveCount(0);
  }
});
