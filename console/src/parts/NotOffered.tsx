// What is shown where the server is older than the console and lacks a route. Quiet: nothing is broken.
import type { ReactNode } from "react";

import { ApiError } from "../api/error";
import { Empty } from "./States";

/** Whether a request failed because the server does not have the route, and not because the thing asked for is missing. */
export function isNotOffered(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404 && /no such route/.test(error.message);
}

/** `what` is the beginning of the sentence: "Explaining an answer". */
export function NotOffered({ what, children }: { what: string; children?: ReactNode }) {
  return (
    <Empty icon="wait" title="This server does not offer it yet">
      <p>{what} comes with a later version of the server. Nothing is wrong with your account.</p>
      {children}
    </Empty>
  );
}
