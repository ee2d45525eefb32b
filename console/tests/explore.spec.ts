import { readFileSync } from "node:fs";

import type { APIRequestContext, Page } from "@playwright/test";

import { besideThreshold, thresholdIn, withThreshold } from "../src/screens/explore/condition-threshold";
import { inParts, type Progress } from "../src/screens/explore/in-parts";
import { fillLabelled } from "./labelled";
import { median, workOf } from "./page-work";
import { conditionEditor, expect, expectAccessible, open, press, settled, test, type } from "./stage";

test("a condition completes, is checked where it is wrong, counted and shown", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  await open(page, "/console/explore", "Explore");
  const editor = conditionEditor(page);
  await editor.focus();
  await page.keyboard.type("is_sc");
  const options = page.getByRole("listbox").getByRole("option");
  await expect(options.filter({ hasText: "is_scammer" })).toBeVisible();
  await page.keyboard.press("Enter");
  await page.keyboard.type("> 0.9 and trust_scor < 1");
  await expect(page.getByText(/[Uu]nknown signal `trust_scor` \(at character 22\)/)).toBeVisible();
  await expect(page.locator("[data-condition-editor] .cm-lintRange-error")).toHaveText("trust_scor");
  await expectAccessible(page);
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("is_scammer > 0.5");
  await page.keyboard.press("Escape");
  await expect(page.getByText(/^\d objects match now$/)).toBeVisible();
  const matches = Number((await page.getByText(/objects match now$/).textContent())?.split(" ")[0]);
  await page.keyboard.press("Enter");
  await expect(page.getByText(`${matches} objects shown`)).toBeVisible();
  expect(new URL(page.url()).searchParams.get("q")).toBe("is_scammer > 0.5");
  await page.getByRole("grid", { name: "Objects" }).getByRole("row").nth(1).press("Enter");
  await expect(page).toHaveURL(/\/console\/objects\/\w+%2F\d+$/);
});

/** Keeps the editor's script back until it is told to let it through, or that it cannot be loaded. */
async function holdEditor(page: Page): Promise<(end: "continue" | "abort") => void> {
  let release: (end: "continue" | "abort") => void = () => undefined;
  const released = new Promise<"continue" | "abort">((resolve) => (release = resolve));
  await page.route("**/assets/Editor-*.js", async (route) => ((await released) === "continue" ? route.continue() : route.abort()));
  return release;
}

test("what is typed while the editor is loaded stays, and one goes on where one was", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  const release = await holdEditor(page);
  await open(page, "/console/explore", "Explore");
  const plain = page.locator("input[name=condition]");
  await plain.focus();
  await page.keyboard.type("is_scammer > 0.5");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/q=is_scammer\+%3E\+0\.5(&|$)/);
  for (let back = 0; back < " > 0.5".length; back++) await page.keyboard.press("ArrowLeft");
  await expect(plain).toBeFocused();
  release("continue");
  await page.keyboard.type(" > 0.1 and trust_score < 2 and is_scammer", { delay: 20 });
  await expect(conditionEditor(page)).toBeFocused();
  await page.keyboard.type(" < 0.9 or is_scammer");
  await expect(conditionEditor(page)).toHaveText("is_scammer > 0.1 and trust_score < 2 and is_scammer < 0.9 or is_scammer > 0.5");
  await expect(plain).toHaveCount(0);
});

test("a selection goes over to the editor, and who is elsewhere stays there", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  const release = await holdEditor(page);
  await open(page, "/console/explore?q=is_scammer", "Explore");
  await page.locator("input[name=condition]").focus();
  await page.keyboard.press("End");
  for (let back = 0; back < "scammer".length; back++) await page.keyboard.press("Shift+ArrowLeft");
  release("continue");
  await expect(conditionEditor(page)).toBeFocused();
  await page.keyboard.press("Shift+ArrowRight");
  await page.keyboard.type("x");
  await expect(conditionEditor(page)).toHaveText("is_sx");
  const releaseAgain = await holdEditor(page);
  await page.reload();
  await page.locator("input[name=condition]").focus();
  const sort = page.getByRole("button", { name: /Sort by/ });
  await sort.focus();
  releaseAgain("continue");
  await expect(conditionEditor(page)).toBeVisible();
  await expect(sort).toBeFocused();
});

test("where the editor cannot be loaded, the plain field goes on", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  const release = await holdEditor(page);
  await open(page, "/console/explore", "Explore");
  const plain = page.locator("input[name=condition]");
  await plain.focus();
  await page.keyboard.type("is_scammer 0.5");
  for (let back = 0; back < " 0.5".length; back++) await page.keyboard.press("ArrowLeft");
  const first = await plain.elementHandle();
  release("abort");
  await expect.poll(() => first?.evaluate((field) => field.isConnected)).toBe(false);
  await page.keyboard.type(" >");
  await expect(plain).toHaveValue("is_scammer > 0.5");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/q=is_scammer\+%3E\+0\.5(&|$)/);
});

/** Many objects with an event each. */
async function fillLong(api: APIRequestContext, objects: number): Promise<void> {
  const send = (index: number) => api.post(`/v1/objects/item-${index}/events`, { data: { events: [{ type: "event", name: "seen" }] } });
  for (let start = 0; start < objects; start += 10) {
    const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => send(start + index)));
    expect(answers.map((answer) => answer.status())).toEqual(Array(10).fill(202));
  }
}

test("a long list is virtual, goes on, and is walked through by keys", async ({ page, person }) => {
  await fillLong(person.api, 130);
  await open(page, "/console/explore", "Explore");
  await expect(page.getByText("100 objects shown")).toBeVisible();
  await page.getByRole("button", { name: "Load more" }).press("Enter");
  await expect(page.getByText("130 objects shown")).toBeVisible();
  const table = page.getByRole("grid", { name: "Objects" });
  const rows = table.getByRole("row");
  expect(await rows.count(), "rows in the document").toBeLessThan(60);
  await expect(table).toHaveAttribute("aria-rowcount", "131");

  await page.getByRole("button", { name: "Export…" }).focus();
  await page.keyboard.press("Tab");
  await expect(rows.nth(1)).toBeFocused();
  await page.keyboard.press("End");
  const last = table.locator("[aria-rowindex='131']");
  await expect(last).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect(last.getByRole("link")).toBeFocused();
  await page.keyboard.press("ArrowUp");
  await expect(table.locator("[aria-rowindex='130']").getByRole("link")).toBeFocused();
  await page.keyboard.press("Shift+Tab");
  await expect(page.getByRole("button", { name: "Export…" })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(table.locator("[aria-rowindex='130']"), "one comes back to where one was").toBeFocused();
  await page.keyboard.press("Space");
  await page.keyboard.press("Shift+ArrowUp");
  await page.keyboard.press("Shift+ArrowUp");
  await expect(page.getByText("3 selected")).toBeVisible();
  await expect(table.getByRole("checkbox", { checked: true })).toHaveCount(3);
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await expect(page.getByText("None selected")).toBeVisible();
  await page.keyboard.press("ControlOrMeta+Home");
  await page.keyboard.press("ArrowUp");
  await expect(table.getByRole("columnheader").first()).toBeFocused();
  await page.keyboard.press("Space");
  await expect(page.getByText("130 selected")).toBeVisible();
});

// With the tables of react-aria the page took more than twice as long: docs/adr/0034-virtual-tables-by-hand.md.
test("the page takes less than 100 ms for a key or a turn of the wheel in a long list", async ({ page, person }) => {
  await fillLong(person.api, 100);
  await open(page, "/console/explore", "Explore");
  await expect(page.getByText("100 objects shown")).toBeVisible();
  const table = page.getByRole("grid", { name: "Objects" });
  const work = await workOf(page);
  const several = async (act: (number: number) => Promise<unknown>) => {
    const taken: number[] = [];
    for (let number = 0; number < 5; number++) taken.push(await work(() => act(number)));
    return median(taken);
  };
  await table.getByRole("row").nth(1).focus();
  const select = await several(async (number) => {
    await page.keyboard.press("Space");
    await expect(page.getByText(number % 2 === 0 ? "1 selected" : "None selected")).toBeVisible();
  });
  await table.hover();
  const wheel = await several(async (number) => {
    const before = await table.getByRole("row").nth(8).getAttribute("aria-rowindex");
    await page.mouse.wheel(0, number % 2 === 0 ? 1500 : -1500);
    await expect(table.getByRole("row").nth(8)).not.toHaveAttribute("aria-rowindex", before ?? "");
  });
  const sort = await several(async (number) => {
    await page.evaluate((sort) => window.history.pushState({}, "", `/console/explore?sort=${sort}`), number % 2 === 0 ? "trust" : "recent");
    await expect(page.getByRole("button", { name: number % 2 === 0 ? /Highest score/ : /Last seen/ })).toBeVisible();
  });
  expect(Math.max(select, wheel, sort), `select ${select.toFixed(0)} ms, wheel ${wheel.toFixed(0)} ms, sort ${sort.toFixed(0)} ms`).toBeLessThan(100);
});

test("a threshold is moved by keys, a view is saved, and both are in the address", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  await open(page, "/console/explore", "Explore");
  const threshold = page.getByRole("slider", { name: /is_scammer/ });
  await threshold.focus();
  await page.keyboard.press("ArrowRight");
  await expect(page).toHaveURL(/q=is_scammer\+%3E\+0\.51/);
  await expect(conditionEditor(page)).toHaveText("is_scammer > 0.51");
  await page.keyboard.press("End");
  await expect(page.getByText("No object matches")).toBeVisible();
  await page.keyboard.press("Home");
  await expect(page).toHaveURL(/q=is_scammer\+%3E\+0(&|$)/);

  await press(page, "button", "Save this view");
  await expect(page.getByLabel("Name", { exact: true })).toBeFocused();
  await page.keyboard.type("Anything at all");
  await page.keyboard.press("Enter");
  const views = page.getByRole("list", { name: "Saved views" });
  await expect(views).toContainText("Anything at all");
  await open(page, "/console/explore", "Explore");
  await press(page, "link", "Anything at all");
  await expect(page).toHaveURL(/q=is_scammer/);
  await expect(conditionEditor(page)).toHaveText("is_scammer > 0");
  await press(page, "button", "Remove the view Anything at all");
  await expect(views).toHaveCount(0);
});

test("the threshold is drawn among what matches the rest of the condition", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  const asked: (string | null)[] = [];
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === "/v1/signals/is_scammer/distribution") asked.push(searchParams.get("q"));
  });
  await open(page, "/console/explore?q=trust_score%20%3C%202%20and%20is_scammer%20%3E%200.5", "Explore");
  await expect(page.getByText(/^about \d of \d objects? that match(es)? the rest of the condition$/)).toBeVisible();
  await page.getByRole("slider", { name: /is_scammer/ }).focus();
  await page.keyboard.press("ArrowLeft");
  await expect(conditionEditor(page)).toHaveText("trust_score < 2 and is_scammer > 0.49");
  await page.keyboard.press("ArrowLeft");
  await expect(conditionEditor(page)).toHaveText("trust_score < 2 and is_scammer > 0.48");
  expect(asked, "once, however it is moved").toEqual(["trust_score < 2"]);
});

test("a threshold has one place in a condition", () => {
  expect(withThreshold("", "a", 0.5)).toBe("a > 0.5");
  expect(withThreshold("b = c", "a", 0.5)).toBe("b = c and a > 0.5");
  for (const or of ["or", "OR", "Or"]) expect(withThreshold(`b = c ${or} d > 1`, "a", 0.5)).toBe(`(b = c ${or} d > 1) and a > 0.5`);
  expect(withThreshold('b = "this or that"', "a", 0.5)).toBe('b = "this or that" and a > 0.5');
  expect(withThreshold("is_a > 1 and a_is > 1", "a", 0.5)).toBe("is_a > 1 and a_is > 1 and a > 0.5");
  // Of several comparisons it moves the first, however often it is moved.
  let range = "a > 0.2 and a < 0.8";
  for (const value of [0.3, 0.4]) range = withThreshold(range, "a", value);
  expect(range).toBe("a > 0.4 and a < 0.8");
  expect(thresholdIn(range, "a")).toEqual({ operator: ">", value: 0.4 });
  expect(withThreshold('b = "a > 0.1" or a<=.5', "a", 0.6)).toBe('b = "a > 0.1" or a <= 0.6');
  expect(thresholdIn('b = "a > 0.1"', "a")).toBeUndefined();
});

test("what a condition says beside a threshold", () => {
  const beside = { "": "", "kim": "kim", "b > 1": "b > 1", "a > 0.5": "", " a >= 0.5 ": "", "b > 1 or c > 1 AND a > 0.5": "b > 1 or c > 1" };
  for (const [condition, rest] of Object.entries(beside)) expect(besideThreshold(condition, "a"), condition).toBe(rest);
  // Where it cannot be left out, it is true of every answer.
  expect(besideThreshold("a > 0.5 and b > 1", "a")).toBe("a >= 0 and b > 1");
  expect(besideThreshold("a > 0.5, b > 1", "a")).toBe("a >= 0, b > 1");
  expect(besideThreshold("(b > 1 or a > 0.5) and c > 1", "a")).toBe("(b > 1 or a >= 0) and c > 1");
  expect(besideThreshold("a > 0.2 and a < 0.8", "a")).toBe("a >= 0 and a < 0.8");
  expect(besideThreshold("b > 1 and not a > 0.5", "a"), "what is negated cannot be left out so").toBe("");
});

test("many objects are labelled and put into a queue, with their number first", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 5, labelled: 0 });
  await open(page, "/console/explore", "Explore");
  const rows = page.getByRole("grid", { name: "Objects" }).getByRole("row");
  await expect(rows).toHaveCount(6);
  await rows.nth(1).focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Space");
  await expect(page.getByText("2 selected")).toBeVisible();
  await expectAccessible(page);
  await press(page, "button", "Label…");
  await expect(page.getByRole("dialog", { name: "Label 2 objects" })).toBeVisible();
  await press(page, "button", "Yes");
  await press(page, "button", "Label 2 objects");
  await expect(page.getByText("2 objects labelled: is_scammer is Yes.")).toBeVisible();
  const labels = async () => ((await (await person.api.get("/v1/labels")).json()) as { labels: { signal: string; value: unknown }[] }).labels;
  expect((await labels()).map(({ signal, value }) => [signal, value])).toEqual([["is_scammer", true], ["is_scammer", true]]);

  await press(page, "button", /^Select all that match/);
  await expect(page.getByText("5 selected")).toBeVisible();
  await press(page, "button", "Open reviews…");
  await type(page, "Queue", "second look");
  await page.keyboard.press("Enter");
  await expect(page.getByText("5 objects wait in the queue second look.")).toBeVisible();
  const { reviews } = (await (await person.api.get("/v1/reviews?queue=second%20look")).json()) as { reviews: unknown[] };
  expect(reviews.length).toBe(5);
});

test("what is not understood is not half searched, and a text is no condition", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  await open(page, "/console/explore?q=is_scammer%20%3E%200%20and%20no_such_signal%20%3E%201", "Explore");
  await expect(page.getByText("Nothing was searched: the condition is not understood")).toBeVisible();
  await expect(page.getByRole("main").getByText(/Unknown signal `no_such_signal` \(at character 20\)/)).toBeVisible();
  await expect(page.getByRole("grid", { name: "Objects" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: /^Select all that match/ })).toHaveCount(0);
  await expectAccessible(page);
  const rule = page.getByRole("link", { name: "Make a rule of this condition" });
  await open(page, "/console/explore?q=user", "Explore");
  await expect(page.getByText("Searched as text in ids and names.")).toBeVisible();
  await expect(rule).toHaveCount(0);
  await open(page, "/console/explore?q=is_scammer%20%3E%200", "Explore");
  await expect(rule).toBeVisible();
});

test("what matches is exported as a table, and everything of one kind as a stream", async ({ page, person }) => {
  await fillLong(person.api, 210);
  await open(page, "/console/explore?q=item-1", "Explore");
  await expect(page.getByText("100 objects shown")).toBeVisible();
  await press(page, "button", "Export…");
  const dialog = page.getByRole("dialog", { name: "Export" });
  await expect(dialog.getByText("item-1", { exact: true })).toBeVisible();
  await expectAccessible(page);
  const table = page.waitForEvent("download");
  await press(page, "button", "Export as a table");
  const lines = readFileSync(await (await table).path(), "utf8").trimEnd().split("\r\n");
  expect(lines[0]).toMatch(/^object_id,object_type,display_name,event_count,last_seen,/);
  const ids = lines.slice(1).map((line) => line.split(",")[0]);
  expect(ids.length, "item-1, item-10 to item-19 and item-100 to item-199").toBe(111);
  expect(new Set(ids).size).toBe(111);
  await expect(page.getByText("111 objects are in the file.")).toBeVisible();

  const stream = page.waitForEvent("download");
  await press(page, "link", "Download everything");
  const exported = await stream;
  expect(exported.suggestedFilename()).toBe("objects.csv");
  const rows = readFileSync(await exported.path(), "utf8").trimEnd().split("\r\n");
  expect(rows[0]).toMatch(/^object_id,object_type,.*,cursor$/);
  expect(rows.length).toBe(211);
});

test("an export that lacks something says so", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  const dialog = page.getByRole("dialog", { name: "Export" });
  let change = (counted: { count: number; capped: boolean }) => ({ ...counted, count: counted.count + 3 });
  await page.route("**/v1/object_count?*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: change((await response.json()) as { count: number; capped: boolean }) });
  });
  await open(page, "/console/explore?q=is_scammer%20%3E%200", "Explore");
  await press(page, "button", "Export…");
  const exportTable = async () => {
    const table = page.waitForEvent("download");
    await press(page, "button", "Export as a table");
    return readFileSync(await (await table).path(), "utf8").trimEnd().split("\r\n").length - 1;
  };
  const rows = await exportTable();
  await expect(dialog.getByText(`The file does not have all: the file has ${rows} objects, and ${rows + 3} match.`)).toBeVisible();
  await expectAccessible(page);
  change = (counted) => ({ ...counted, capped: true });
  await exportTable();
  await expect(dialog.getByText(/^The file may not have all: /)).toBeVisible();
  change = (counted) => counted;
  await exportTable();
  await expect(page.getByText(`${rows} objects are in the file.`)).toBeVisible();
  await expect(dialog.getByText(/not have all/)).toHaveCount(0);
});

test("what is meant for more objects than one request takes is sent in parts", async () => {
  const ids = Array.from({ length: 2_001 }, (_, index) => `object-${index}`);
  const parts: number[] = [];
  const progress: Progress[] = [];
  const send = async (part: string[]) => {
    parts.push(part.length);
    return part.flatMap((id, index) => (id.endsWith("-7") || id === "object-2000" ? [{ index, message: "no such object" }] : []));
  };
  const { done, refused } = await inParts(ids, send, (sent) => progress.push(sent));
  expect(parts).toEqual([1_000, 1_000, 1]);
  expect(progress.map((sent) => sent.done)).toEqual([999, 1_999, 1_999]);
  expect(done).toBe(1_999);
  expect(refused.map(({ objectId }) => objectId)).toEqual(["object-7", "object-2000"]);
});

test("where a part fails, what was refused before it is known, and nothing more is sent", async () => {
  const ids = Array.from({ length: 3_000 }, (_, index) => `object-${index}`);
  const progress: Progress[] = [];
  let parts = 0;
  const send = async () => {
    if (++parts === 2) throw new Error("the service cannot be reached");
    return [{ index: 7, message: "no such object" }, { index: 9, message: "no such object" }];
  };
  await expect(inParts(ids, send, (sent) => progress.push(sent))).rejects.toThrow("the service cannot be reached");
  expect(parts).toBe(2);
  expect(progress).toEqual([{ done: 998, refused: [{ objectId: "object-7", message: "no such object" }, { objectId: "object-9", message: "no such object" }] }]);
});

test("what was refused of many labels is named", async ({ page, person }) => {
  await fillLabelled(person.api, { objects: 3, labelled: 0 });
  await open(page, "/console/explore", "Explore");
  await press(page, "button", /^Select all that match/);
  await expect(page.getByText("3 selected")).toBeVisible();
  expect((await person.api.delete("/v1/objects/seller-1")).ok()).toBe(true);
  await press(page, "button", "Label…");
  await press(page, "button", "Yes");
  await press(page, "button", "Label 3 objects");
  await expect(page.getByText("2 of 3 labelled")).toBeVisible();
  await expect(page.getByRole("alert")).toContainText("1 object was refused:");
  await expect(page.getByRole("alert")).toContainText("seller-1: ");
  await expectAccessible(page);
  await press(page, "button", "Close");
  await expect(page.getByText("None selected")).toBeVisible();
});

test("a search that ended before all objects were looked at says so", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  const limit = "the search ended after 50000 objects in this order; a narrower condition finds the others";
  // It takes more than 50,000 objects to come about; the answer is the service's own with the sentence that it then adds.
  await page.route("**/v1/objects?*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...((await response.json()) as object), warnings: [limit] } });
  });
  await open(page, "/console/explore?q=is_scammer%20%3E%200", "Explore");
  await expect(page.getByText(`Not everything was looked for: ${limit}.`)).toBeVisible();
});

test("a search that has found nothing yet goes on where it ended", async ({ page, context, sample }) => {
  await context.addCookies(sample.cookies);
  // It takes more than 50,000 objects that do not match to come about: the first page of the service's own answer, without its objects.
  const cursors: (string | null)[] = [];
  await page.route("**/v1/objects?*", async (route) => {
    const url = new URL(route.request().url());
    cursors.push(url.searchParams.get("cursor"));
    url.searchParams.delete("cursor");
    const response = await route.fetch({ url: url.href });
    if (cursors.length === 1) await route.fulfill({ response, json: { ...((await response.json()) as object), objects: [], next_cursor: "so-far" } });
    else await route.fulfill({ response });
  });
  await open(page, "/console/explore?q=seller", "Explore");
  await expect(page.getByText("None of the objects looked at so far matches")).toBeVisible();
  await settled(page);
  await expectAccessible(page);
  expect(cursors, "it does not go on by itself").toEqual([null]);
  await press(page, "button", "Go on searching");
  await expect(page.getByRole("grid", { name: "Objects" }).getByRole("row")).toHaveCount(4);
  await expect(page.getByText("None of the objects looked at so far matches")).toHaveCount(0);
  expect(cursors).toEqual([null, "so-far"]);
});
