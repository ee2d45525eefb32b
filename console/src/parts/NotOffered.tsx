// For what is decided but not on every server yet: a quiet word in place of an error.
import { ApiError } from "../api/error";
import { Empty } from "./States";

/** Whether a request failed because the server has no such route, rather than no such thing. */
export function isNotOffered(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 405 || (error.status === 404 && error.message.includes("no such route")));
}

/** `what` completes "This server does not offer … yet". */
export function NotOffered({ what, instead }: { what: string; instead?: string }) {
  return (
    <Empty icon="wait" title={`This server does not offer ${what} yet`}>
      It comes with a later version of the service. {instead}
    </Empty>
  );
}
