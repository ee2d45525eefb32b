import optimizeLocales from "@react-aria/optimize-locales-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig, type PluginOption } from "vite";

// A running service, for `npm run dev` and `npm run preview`. It must be started with AUSPEX_PUBLIC_URL set to the address of Vite.
const service = process.env.AUSPEX_URL ?? "http://127.0.0.1:8080";
const proxy = { "^/(v1|auth|docs|mcp|openapi|healthz|readyz)": { target: service, changeOrigin: false } };
const policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export default defineConfig({
  base: "/console/",
  plugins: [
    // Texts of react-aria in English only: the other thirty languages would be half of the script.
    { ...optimizeLocales.vite({ locales: ["en-US"] }), enforce: "pre" } as PluginOption,
    react(),
  ],
  server: { proxy },
  preview: { proxy, headers: { "Content-Security-Policy": policy } },
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
