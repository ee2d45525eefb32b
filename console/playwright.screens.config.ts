import { defineConfig } from "@playwright/test";

import tests from "./playwright.config";

export default defineConfig({ ...tests, testMatch: "screens*.ts", timeout: 300_000 });
