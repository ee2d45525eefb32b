import { defineConfig } from "@playwright/test";

import tests from "./playwright.config";

export default defineConfig({ ...tests, testMatch: "pictures*.ts", timeout: 300_000 });
