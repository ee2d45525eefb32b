// The typed client of the service's own API. Sessions are a cookie that scripts cannot read; this module repeats a request after
// the person has signed in again, or proved who they are, so that screens never see either.
import createClient from "openapi-fetch";

import { reportFailure, reportResponse } from "./connection";
import { ApiError, errorOf, unreachable } from "./error";
import { askForProof, askToSignInAgain, sessionKnown } from "./gates";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

async function attempt(request: Request): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    reportFailure("offline");
    throw unreachable();
  }
  if (response.status !== 503) reportResponse();
  return response;
}

/** Sends a request; asks the person for what it lacks and repeats it then. */
export async function send(request: Request): Promise<Response> {
  request.headers.set("X-Auspex-Session", "cookie");
  const again = request.clone();
  const response = await attempt(request);
  if (response.ok) return response;
  const error = await errorOf(response);
  const ofSession = new URL(request.url).pathname.startsWith("/v1/");
  if (error.status === 401 && ofSession && sessionKnown.get()) {
    await askToSignInAgain();
    return send(again);
  }
  if (error.code === "reauthentication_required") {
    await askForProof();
    return send(again);
  }
  if (error.code === "not_ready") reportFailure("unavailable");
  throw error;
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: send });

/** The data of a response. `send` has thrown already when there is none. */
export async function take<T>(call: Promise<{ data?: T }>): Promise<T> {
  return (await call).data as T;
}

/** A request to a route that the OpenAPI document does not have yet. Remove each use once it has. */
export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await send(
    new Request(new URL(path, location.origin), {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
    }),
  );
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export { ApiError };
