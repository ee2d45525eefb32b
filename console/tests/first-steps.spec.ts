import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import ts from "typescript";

import { expect, open, press, test } from "./stage";

/** Runs a snippet as a person would who has saved it, and returns what it printed. */
function run(language: string, code: string): string {
  const folder = mkdtempSync(join(tmpdir(), "auspex-snippet-"));
  const options = { encoding: "utf8" as const, env: { PATH: process.env.PATH, NO_COLOR: "1" } };
  const save = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  if (language === "curl") return execFileSync("bash", [save("first-event.sh", code)], options);
  if (language === "Python") return execFileSync("python3", [save("first_event.py", code)], options);
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  return execFileSync("node", [save("first-event.mjs", ts.transpileModule(code, { compilerOptions }).outputText)], options);
}

test("every snippet runs as it stands, and the page turns by itself", async ({ page, person }) => {
  await open(page, "/console/first-steps", "First steps");
  await expect(page.getByText("Waiting for your first event")).toBeVisible();
  await press(page, "button", "Create a key");
  await expect(page.getByText("not shown again")).toBeVisible();
  for (const language of ["curl", "Python", "TypeScript"]) {
    await page.getByRole("tab", { name: language }).focus();
    await page.keyboard.press("Enter");
    const code = (await page.getByLabel(`the ${language} snippet`, { exact: true }).textContent()) ?? "";
    expect(run(language, code), language).toMatch(/accepted['"]?: ?1/);
  }
  await expect(page.getByText(/seller_7 has answers to 3 signals/)).toBeVisible({ timeout: 45_000 });
  await expect(page.getByRole("img", { name: /is_scammer: \d+ %/ })).toBeVisible();
  await expect.poll(async () => ((await (await person.api.get("/v1/me")).json()) as { onboarded: boolean }).onboarded).toBe(true);
  await press(page, "link", "To the overview");
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeFocused();
});

test("the story can be played without a program", async ({ page, person }) => {
  void person;
  await open(page, "/console/first-steps", "First steps");
  await press(page, "button", /Play a small marketplace story/);
  await expect(page.getByText("3 objects sent")).toBeVisible();
  await expect(page.getByText(/has answers to 3 signals/)).toBeVisible({ timeout: 45_000 });
});
