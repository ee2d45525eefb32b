import "./styles/tokens.css";
import "./styles/base.css";
import "./shell/theme";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { I18nProvider } from "react-aria-components/I18nProvider";
import { createRoot } from "react-dom/client";

import { queries } from "./api/session";
import { router } from "./router";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id `root`");

createRoot(root).render(
  <StrictMode>
    <I18nProvider locale="en-GB">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </I18nProvider>
  </StrictMode>,
);
