import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  workers: 2,
  fullyParallel: true,
  // On a busy machine a story may time out; what fails three times is broken.
  retries: process.env.CI ? 2 : 0,
  timeout: 90_000,
  expect: { timeout: 15_000 },
  reporter: [["list"], ["./tests/second-tries.ts"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1440, height: 900 },
    // To record a trace of every story takes half as much processor time again: `npx playwright test --trace retain-on-failure` when one is needed.
    trace: "on-first-retry",
    // Without a GPU to emulate, the browser takes about a sixth less processor time.
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] },
  },
});
