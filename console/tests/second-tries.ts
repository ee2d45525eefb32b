// Says at the end of a run which stories needed a second try: they pass, and something about them is not as it should be.
import type { FullResult, Reporter, TestCase, TestResult } from "@playwright/test/reporter";

const SLOWEST = 5;

export default class SecondTries implements Reporter {
  readonly #stories = new Map<TestCase, number>();

  onTestEnd(story: TestCase, { duration }: TestResult): void {
    this.#stories.set(story, (this.#stories.get(story) ?? 0) + duration);
  }

  onEnd({ duration }: FullResult): void {
    const stories = [...this.#stories];
    const nameOf = (story: TestCase) => story.titlePath().filter(Boolean).join(" › ");
    const secondsOf = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`;
    for (const [story] of stories.filter(([each]) => each.outcome() === "flaky")) {
      const first = story.results[0]?.error?.message?.split("\n")[0] ?? "no message";
      console.warn(`warning: needed ${story.results.length} tries: ${nameOf(story)}: ${first}`);
    }
    const slowest = stories.toSorted(([, one], [, other]) => other - one).slice(0, SLOWEST);
    console.log(`${stories.length} stories in ${secondsOf(duration)}; the slowest: ${slowest.map(([story, took]) => `${story.title} (${secondsOf(took)})`).join("; ")}`);
  }

  printsToStdio(): boolean {
    return true;
  }
}
