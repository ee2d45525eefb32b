// Takes the pictures of the documents: light, 1440 px wide, small enough to be cloned by everybody.
import { mkdirSync, writeFileSync } from "node:fs";
import type { Page } from "@playwright/test";

import type { Service } from "./service";
import { expect, settled, type Person } from "./stage";

const FOLDER = new URL("../../docs/pictures", import.meta.url).pathname;
/** Readers load them with the page, and everybody clones them. */
const MOST_BYTES = 150_000;
const HEIGHT = 900;

/** Takes the picture `docs/pictures/<name>.webp` of what the page shows now. */
export async function portray(page: Page, name: string, height = HEIGHT): Promise<void> {
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize({ width: 1440, height });
  await settled(page);
  // Neither a focus ring nor a toast belongs into a picture.
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.evaluate(() => scrollTo(0, 0));
  mkdirSync(FOLDER, { recursive: true });
  const picture = await asWebp(page, await page.screenshot());
  expect(picture.length, `bytes of ${name}.webp`).toBeLessThan(MOST_BYTES);
  writeFileSync(`${FOLDER}/${name}.webp`, picture);
}

const QUALITY = 0.85;

/** The same picture in a fraction of the bytes. Chromium itself takes no WebP of a page, but writes one of a canvas. */
async function asWebp(page: Page, png: Buffer): Promise<Buffer> {
  const blank = await page.context().newPage();
  const source = `data:image/png;base64,${png.toString("base64")}`;
  const url = await blank.evaluate(async ({ source, quality }) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    canvas.getContext("2d")?.drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", quality);
  }, { source, quality: QUALITY });
  await blank.close();
  return Buffer.from(url.slice(url.indexOf(",") + 1), "base64");
}

export async function visit(page: Page, path: string): Promise<void> {
  await page.goto(path);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
}

export async function signIn(page: Page, person: Person): Promise<void> {
  await page.context().addCookies((await person.api.storageState()).cookies);
}

/** By the link in the mail, so that no screen has to ask for it. */
export async function confirmAddress(service: Service, person: Person): Promise<void> {
  await expect.poll(() => service.mails(person.email).join()).toContain("verify?token=");
  const token = /verify\?token=([\w-]+)/.exec(service.mails(person.email).join())?.[1];
  const answer = await person.api.post("/auth/console/verify", { data: { token } });
  expect(answer.ok(), await answer.text()).toBe(true);
}
