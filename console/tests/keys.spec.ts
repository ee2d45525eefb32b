import type { Page } from "@playwright/test";

import { type SigningKey, statusWith, tokenOf } from "./signing";
import { choose, expect, expectAccessibleInBothThemes, open, press, test, type } from "./stage";

test("a key is created, shown once, renamed, rotated and revoked by keyboard", async ({ page, person }) => {
  await open(page, "/console/keys", "Keys");
  await expect(page.getByText("No keys yet")).toBeVisible();
  await press(page, "button", "Create a key");
  await expect(page.getByLabel("Name", { exact: true })).toBeFocused();
  await page.keyboard.type("Importer");
  await page.keyboard.press("Enter");
  const secrets = page.getByRole("dialog", { name: "Your new secret" });
  const first = await secrets.locator("code").nth(1).textContent();
  expect(first).toMatch(/^sk_/);
  await press(page, "button", "I have stored it");
  await expect(page.getByText(first ?? "")).toHaveCount(0);

  const act = async (name: string) => {
    await openActions(page);
    await page.getByRole("menuitem", { name }).press("Enter");
  };
  await act("Rename…");
  await type(page, "Name", "Nightly importer");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("rowheader", { name: "Nightly importer" })).toBeVisible();

  await act("Turn off");
  await expect(page.getByText("inactive")).toBeVisible();

  await act("Rotate the secret…");
  await press(page, "button", "Rotate");
  await expect(secrets.locator("code").nth(1)).toHaveText(/^sk_/);
  expect(await secrets.locator("code").nth(1).textContent()).not.toBe(first);
  await press(page, "button", "I have stored it");

  await act("Revoke…");
  await page.keyboard.press("Escape");
  await act("Revoke…");
  await press(page, "button", "Revoke");
  await expect(page.getByText("No keys yet")).toBeVisible();
  const { api_keys } = (await (await person.api.get("/v1/api_keys")).json()) as { api_keys: { status: string }[] };
  expect(api_keys.filter((key) => key.status !== "revoked")).toEqual([]);
});

/** In the table, Tab reaches a row, and the arrows its cells; the actions are the last one. */
async function openActions(page: Page): Promise<void> {
  // A list that is read again meanwhile draws its rows anew.
  await expect(async () => {
    await page.getByRole("rowheader").locator("..").focus();
    await page.keyboard.press("ArrowLeft");
    await expect(page.getByRole("button", { name: "Actions for" })).toBeFocused({ timeout: 1_000 });
  }).toPass({ timeout: 15_000 });
  await page.keyboard.press("Enter");
}

test("a key is limited to what its program needs", async ({ page, person }) => {
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "Collector");
  for (const scope of ["write", "label"]) {
    await page.getByRole("checkbox", { name: new RegExp(`^${scope}`) }).focus();
    await page.keyboard.press("Space");
  }
  await expectAccessibleInBothThemes(page);
  await press(page, "button", "Create the key");
  await press(page, "button", "I have stored it");
  await expect(page.getByRole("row", { name: /Collector/ })).toContainText("ingest, read");
  const { api_keys } = (await (await person.api.get("/v1/api_keys")).json()) as { api_keys: { scopes: string[] }[] };
  expect(api_keys.map(({ scopes }) => scopes)).toEqual([["ingest", "read"]]);
});

test("a bearer key is made for an agent, shown once, and opens what was chosen", async ({ page, person, service }) => {
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "Agent");
  await choose(page, "radio", /^Bearer/);
  const create = page.getByRole("button", { name: "Create the key" });
  await expect(create).toBeDisabled();
  await expect(page.getByRole("checkbox"), "moderate and mcp").toHaveCount(2);
  await choose(page, "checkbox", /^mcp/);
  await expect(page.getByRole("checkbox"), "write and label too").toHaveCount(4);
  await choose(page, "checkbox", /^label/);
  await expectAccessibleInBothThemes(page);
  await press(page, "button", "Create the key");
  const secrets = page.getByRole("dialog", { name: "Your new secret" });
  await expect(secrets).toContainText("Requests carry it as Authorization: Bearer");
  const secret = (await secrets.locator("code").nth(1).textContent()) ?? "";
  expect(secret).toMatch(/^bk_/);
  await press(page, "button", "I have stored it");
  await expect(page.getByText(secret)).toHaveCount(0);
  await expect(page.getByRole("row", { name: /Agent/ })).toContainText("label, mcp (bearer)");
  const { api_keys } = (await (await person.api.get("/v1/api_keys")).json()) as { api_keys: { kind: string; scopes: string[] }[] };
  expect(api_keys).toMatchObject([{ kind: "bearer", scopes: ["label", "mcp"] }]);

  const clientInfo = { name: "story", version: "1" };
  const hello = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } };
  const headers = { Authorization: `Bearer ${secret}`, "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  expect((await fetch(`${service.origin}/mcp`, { method: "POST", headers, body: JSON.stringify(hello) })).status).toBe(200);
  const moderated = await fetch(`${service.origin}/v1/moderations`, { method: "POST", headers, body: JSON.stringify({ input: "Hello" }) });
  expect(moderated.status, "it was not given the scope moderate").toBe(403);
});

test("what is chosen for one kind of key is not carried over to the other", async ({ page, person }) => {
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await choose(page, "radio", /^Bearer/);
  await choose(page, "checkbox", /^mcp/);
  await choose(page, "checkbox", /^write/);
  await page.getByRole("checkbox", { name: /^mcp/ }).press("Space");
  await choose(page, "checkbox", /^moderate/);
  await press(page, "button", "Create the key");
  await press(page, "button", "I have stored it");
  await press(page, "button", "Create a key");
  await choose(page, "radio", /^Bearer/);
  await choose(page, "radio", /^Signed/);
  await press(page, "button", "Create the key");
  await press(page, "button", "I have stored it");
  await expect(page.getByRole("gridcell", { name: "everything" })).toBeVisible();
  const { api_keys } = (await (await person.api.get("/v1/api_keys")).json()) as { api_keys: { kind: string; scopes: string[] }[] };
  const made = api_keys.map(({ kind, scopes }) => `${kind}: ${scopes.join()}`).sort();
  expect(made).toEqual(["bearer: moderate", "signed: ingest,read,write,label"]);
});

test("an error of the service stands beside the field that it names", async ({ page, person }) => {
  void person;
  await page.route("**/v1/api_keys", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    await route.fulfill({ status: 400, json: { error: { code: "bad_request", message: "name: at most 100 characters" } } });
  });
  await open(page, "/console/keys", "Keys");
  await press(page, "button", "Create a key");
  await type(page, "Name", "x");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Name", { exact: true })).toHaveAccessibleDescription(/At most 100 characters\./);
});

test("refused requests are listed with their reason, and what to do", async ({ page, person, service }) => {
  const made = (await (await person.api.post("/v1/api_keys", { data: { name: "Importer" } })).json()) as SigningKey & { api_key: { id: string } };
  expect(await statusWith(service.origin, tokenOf(made, { htm: "POST" }))).toBe(401);
  expect(await statusWith(service.origin, tokenOf(made, { htm: "POST" }))).toBe(401);
  expect((await person.api.delete(`/v1/api_keys/${made.api_key.id}`)).status()).toBe(204);
  expect(await statusWith(service.origin, tokenOf(made))).toBe(401);
  await open(page, "/console/keys", "Keys");
  const list = page.getByRole("grid", { name: "Refused requests" });
  await expect(list.getByRole("row", { name: /The key is revoked/ })).toContainText("Importer");
  const wrong = list.getByRole("row", { name: /Signed for another method/ });
  await expect(wrong).toContainText("2");
  await wrong.focus();
  await page.keyboard.press("Enter");
  const details = page.getByRole("dialog", { name: "Signed for another method" });
  await expect(details).toContainText("Put the method of the request into htm.");
  await expect(details).toContainText('htm is "POST", and the request was GET');
  await expectAccessibleInBothThemes(page);
  await page.keyboard.press("Escape");
  await expect(details).toHaveCount(0);
});
