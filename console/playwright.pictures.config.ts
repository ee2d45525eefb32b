import { defineConfig } from "@playwright/test";

import tests from "./playwright.config";

export default defineConfig({ ...tests, testMatch: "pictures*.ts", timeout: 600_000, expect: { timeout: 120_000 } });
