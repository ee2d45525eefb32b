import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Page } from "@playwright/test";
import ts from "typescript";

import { PROGRAMS } from "../src/screens/webhooks/verification";
import { receiver, type Received } from "./receiver";
import { choose, expect, expectAccessible, open, press, test, type } from "./stage";

test("an endpoint is created, its dead delivery looked into and replayed, and the code verifies it", async ({ page, person }) => {
  const { server, url, received, respondWith } = await receiver();
  await open(page, "/console/webhooks", "Webhooks");
  await expect(page.getByText("No endpoints yet")).toBeVisible();
  await press(page, "button", "New endpoint");
  await type(page, "URL", "127.0.0.1:9744/hook");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("URL", { exact: true })).toHaveAccessibleDescription(/must start with http/);
  await type(page, "URL", url);
  await page.keyboard.press("Enter");
  const secret = (await page.getByRole("dialog", { name: "The signing secret" }).locator("code").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  await press(page, "button", "I have stored it");
  await expect(page.getByText(secret)).toHaveCount(0);

  const sent = await person.api.post("/v1/objects/s1/events", { data: { events: [{ type: "message", content: "Hello" }] } });
  expect(sent.status()).toBe(202);
  await expect.poll(() => received.length, { timeout: 30_000 }).toBe(1);
  await page.getByRole("link", { name: url }).press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: url })).toBeVisible();
  const row = page.getByRole("grid", { name: "Deliveries" }).getByRole("row").nth(1);
  await expect(row).toContainText("dead");
  await page.getByRole("button", { name: /^Details of analysis.completed/ }).press("Enter");
  const details = page.getByRole("dialog", { name: "Delivery of analysis.completed" });
  await expect(details).toContainText("HTTP 410");
  await expect(details.getByText("no longer here")).toBeVisible();
  await expect(details.getByText('"object_id": "s1"')).toBeVisible();
  await expectAccessible(page);
  await page.keyboard.press("Escape");

  respondWith(204);
  await press(page, "button", "Replay all dead…");
  await page.getByRole("button", { name: "Replay all", exact: true }).press("Enter");
  await expect(page.getByText("1 delivery is on the way again.")).toBeVisible();
  await expect(row).toContainText("delivered");
  server.close();

  const [first] = received;
  for (const program of PROGRAMS) {
    expect(run(program.id, program.code, secret, first as Received), `${program.name} and the right secret`).toBe("true");
    expect(run(program.id, program.code, "whsec_AAAA", first as Received), `${program.name} and another secret`).toBe("false");
  }
});

/** Runs a program of the console on a delivery as it arrived. */
function run(language: string, code: string, secret: string, { headers, body }: Received): string {
  const folder = mkdtempSync(join(tmpdir(), "auspex-verify-"));
  const input = JSON.stringify({ secret, headers, body });
  const python = `${code}\nimport json, sys\ngiven = json.load(sys.stdin)\nprint(str(is_ours(given["secret"], given["headers"], given["body"].encode())).lower())\n`;
  const script = `${code}\nimport { readFileSync } from "node:fs";\nconst given = JSON.parse(readFileSync(0, "utf8"));\nconsole.log(String(isOurs(given.secret, given.headers, given.body)));\n`;
  const file = join(folder, language === "python" ? "verify.py" : "verify.mjs");
  writeFileSync(file, language === "python" ? python : ts.transpile(script, { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }));
  const { stdout, stderr } = spawnSync(language === "python" ? "python3" : process.execPath, [file], { input, encoding: "utf8" });
  rmSync(folder, { recursive: true });
  return stdout.trim() || stderr;
}

test("a test is sent, and the screen says how the endpoint is doing", async ({ page, person }) => {
  const { server, url, received, respondWith } = await receiver();
  respondWith(204);
  const made = await person.api.post("/v1/webhooks", { data: { url, events: ["review.opened"] } });
  const { endpoint } = (await made.json()) as { endpoint: { id: string } };
  await open(page, `/console/webhooks/${endpoint.id}`, url);
  await expect(page.getByText("nothing sent yet")).toBeVisible();
  await press(page, "button", "Send a test");
  await expect(page.getByText("A test is on its way; it appears in the deliveries.")).toBeVisible();
  await expect.poll(() => received.length).toBe(1);
  expect(JSON.parse(received[0]?.body ?? "{}")).toMatchObject({ event: "endpoint.test", endpoint_id: endpoint.id });
  await expect(page.getByText("100 % of the last 1 delivery")).toBeVisible();
  await expect(page.getByText(/^half within /)).toBeVisible();
  await expect(page.getByRole("grid", { name: "Deliveries" }).getByRole("row").nth(1)).toContainText("endpoint.test");
  await expect(page.getByRole("grid", { name: "Deliveries" }).getByRole("row").nth(1), "it is followed until it has ended").toContainText("delivered");
  await expectAccessible(page);
  server.close();
});

test("an endpoint is changed, disabled, given a new secret and deleted", async ({ page, person }) => {
  const made = await person.api.post("/v1/webhooks", { data: { url: "http://127.0.0.1:9/hooks" } });
  const { endpoint } = (await made.json()) as { endpoint: { id: string } };
  await open(page, `/console/webhooks/${endpoint.id}?tab=settings`, "http://127.0.0.1:9/hooks");
  await choose(page, "checkbox", /review.opened/);
  await press(page, "button", "Save");
  await expect(page.getByText("Saved.", { exact: true })).toBeVisible();
  await page.getByRole("switch", { name: "Enabled" }).press("Space");
  await expect(page.getByText("disabled", { exact: true })).toHaveCount(2);
  const read = (await (await person.api.get(`/v1/webhooks/${endpoint.id}`)).json()) as object;
  expect(read).toMatchObject({ enabled: false, events: ["analysis.completed", "rule.triggered", "review.opened"] });

  await expect(page.getByRole("button", { name: "Send a test" })).toBeDisabled();
  await press(page, "button", "Rotate the secret…");
  await page.getByRole("button", { name: "Make a new secret" }).press("Enter");
  await expect(page.getByRole("dialog", { name: "The signing secret" }).locator("code")).toHaveText(/^whsec_/);
  await press(page, "button", "I have stored it");

  await press(page, "button", "Delete the endpoint…");
  await page.getByRole("button", { name: "Delete the endpoint", exact: true }).press("Enter");
  await expect(page.getByText("No endpoints yet")).toBeVisible();
});

test("the list says how each endpoint is doing, however many deliveries others had", async ({ page, person, service }) => {
  const { server, url, received, respondWith } = await receiver();
  respondWith(204);
  const addresses = [url, `${service.origin}/hooks/refusing`, `${service.origin}/hooks/unused`];
  const made = await Promise.all(addresses.map((address) => person.api.post("/v1/webhooks", { data: { url: address, events: ["review.opened"] } })));
  const [taking, refusing] = await Promise.all(made.map(async (answer) => ((await answer.json()) as { endpoint: { id: string } }).endpoint.id));
  for (const id of [taking, refusing]) expect((await person.api.post(`/v1/webhooks/${id}/test`)).ok()).toBe(true);
  const ended = async (status: string) => ((await (await person.api.get(`/v1/webhook_deliveries?status=${status}`)).json()) as { deliveries: unknown[] }).deliveries.length;
  await expect.poll(() => ended("delivered")).toBe(1);
  await expect.poll(() => ended("dead"), "nothing is at this address").toBe(1);
  expect(received.length).toBe(1);
  let listed = 0;
  page.on("request", (request) => (listed += request.url().includes("/v1/webhook_deliveries") ? 1 : 0));
  await open(page, "/console/webhooks", "Webhooks");
  const endpoints = page.getByRole("grid", { name: "Endpoints" });
  const row = (address: string) => endpoints.getByRole("row").filter({ hasText: address });
  await expect(row(url)).toContainText("100 % taken");
  await expect(row(url)).toContainText(/1 of 1 delivery taken, half within \d/);
  await expect(row("/hooks/refusing")).toContainText("0 % taken");
  await expect(row("/hooks/refusing")).toContainText("1 dead");
  await expect(row("/hooks/unused")).toContainText("none yet");
  expect(listed, "the health of an endpoint is not told from a list of deliveries").toBe(0);
  await expectAccessible(page);
  server.close();
});

/** How often a page has asked for the health of each endpoint, and for the list with that of all, and how many answers it waits for: counted in the page, where a question starts. */
interface Asked {
  times: Record<string, number>;
  open: number;
}

const askedBy = (page: Page): Promise<Asked> => page.evaluate(() => (window as unknown as { asked: Asked }).asked);

async function countAsked(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const asked: Asked = { times: {}, open: 0 };
    Object.assign(window, { asked });
    const { fetch } = window;
    window.fetch = async (input, init) => {
      const url = input instanceof Request ? input.url : String(input);
      const id = url.endsWith("/v1/webhooks?include=health") ? "list" : /\/v1\/webhooks\/([\w-]+)\/health$/.exec(url)?.[1];
      if (!id) return fetch(input, init);
      asked.times[id] = (asked.times[id] ?? 0) + 1;
      asked.open++;
      return fetch(input, init).finally(() => asked.open--);
    };
  });
}

/** How often the health of each endpoint is asked for while so many seconds pass. */
async function askedWithin(page: Page, seconds: number): Promise<(id: string) => number> {
  const quiet = async () => {
    await expect.poll(async () => (await askedBy(page)).open).toBe(0);
    return (await askedBy(page)).times;
  };
  // From here on time passes only as the story says.
  await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 60_000);
  const before = await quiet();
  for (let second = 0; second < seconds; second++) {
    await page.clock.runFor(1000);
    await quiet();
  }
  const after = await quiet();
  await page.clock.resume();
  return (id) => (after[id] ?? 0) - (before[id] ?? 0);
}

test("what waits is asked about every 15 seconds in the list, every 3 on its own screen, and not while an endpoint is disabled", async ({ page, person }) => {
  const { server, url, respondWith } = await receiver();
  respondWith(503);
  const make = async (path: string) => {
    const made = await person.api.post("/v1/webhooks", { data: { url: `${url}/${path}`, events: ["review.opened"] } });
    const { id } = ((await made.json()) as { endpoint: { id: string } }).endpoint;
    expect((await person.api.post(`/v1/webhooks/${id}/test`)).ok()).toBe(true);
    return id;
  };
  const [waiting, disabled] = [await make("waiting"), await make("disabled")];
  expect((await person.api.patch(`/v1/webhooks/${disabled}`, { data: { enabled: false } })).ok()).toBe(true);
  await countAsked(page);
  await page.clock.install();
  await open(page, "/console/webhooks", "Webhooks");
  await expect(page.getByRole("grid", { name: "Endpoints" }).getByText("1 waiting")).toHaveCount(2);
  expect((await askedWithin(page, 60))("list")).toBe(4);

  for (const [id, times] of [[waiting, 4], [disabled, 0]] as const) {
    await open(page, `/console/webhooks/${id}`, /\/hooks\//);
    await expect(page.getByText("no delivery yet").first()).toBeVisible();
    expect((await askedWithin(page, 12))(id)).toBe(times);
  }
  server.close();
});
