// How much processor time a page takes for something. Unlike time on the clock it does not grow when others use the machine.
import type { CDPSession, Page } from "@playwright/test";

/** Measures the thread that runs the page's script, style and layout. */
export async function workOf(page: Page): Promise<(act: () => Promise<unknown>) => Promise<number>> {
  const session: CDPSession = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const taken = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0) * 1000;
  };
  return async (act) => {
    const before = await taken();
    await act();
    // Until it is drawn.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    return (await taken()) - before;
  };
}

export const median = (values: number[]): number => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
