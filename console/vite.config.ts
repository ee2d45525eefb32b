import optimizeLocales from "@react-aria/optimize-locales-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig, type PluginOption } from "vite";

import { sessionBridge } from "./dev/session-bridge";

const service = process.env.AUSPEX_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/console/",
  plugins: [
    // Texts of react-aria in English only: the other thirty languages would be half of the script.
    { ...optimizeLocales.vite({ locales: ["en-US"] }), enforce: "pre" } as PluginOption,
    react(),
    sessionBridge(service),
  ],
  css: {
    modules: { generateScopedName: "[name]_[local]_[hash:base64:4]" },
  },
  build: {
    target: ["chrome123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name]-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
});
