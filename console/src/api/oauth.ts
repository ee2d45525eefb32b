// Sign-in at a provider, in a window of its own: the page below keeps what was typed, and the one-time verifier never leaves memory.
import { useQuery } from "@tanstack/react-query";

import { api, take, type Schemas } from "./client";
import { providersQuery } from "./session";

export type Provider = Schemas["Provider"];
const NAMES: Record<Provider, string> = { google: "Google", github: "GitHub", oidc: "single sign-on" };

/** What people call a provider; the operator names their own issuer. */
export function useProviderNames(): (provider: Provider) => string {
  const { data } = useQuery(providersQuery);
  return (provider) => (provider === "oidc" && data?.oidc_name) || NAMES[provider];
}

const CHANNEL = "auspex-provider";
type Callback = { state: string; code?: string; error?: string };

const urlSafe = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const random = (): string => urlSafe(crypto.getRandomValues(new Uint8Array(32)));

async function challengeOf(verifier: string): Promise<string> {
  return urlSafe(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

/** Opens the provider's page and resolves with the code that it sends back. Call it from a press, or the window is blocked. */
export async function askProvider(provider: Provider): Promise<{ code: string; code_verifier: string }> {
  const opened = window.open("about:blank", "auspex-provider", "popup,width=520,height=680");
  if (!opened) throw new Error("the browser blocked the provider's window; allow it for this page and try again");
  const state = random();
  const verifier = random();
  try {
    const body = { state, code_challenge: await challengeOf(verifier) };
    const { url } = await take(api.POST("/auth/console/oauth/{provider}/authorize", { params: { path: { provider } }, body }));
    opened.location.href = url;
    return { code: await codeFor(state, opened), code_verifier: verifier };
  } finally {
    opened.close();
  }
}

function codeFor(state: string, opened: Window): Promise<string> {
  const channel = new BroadcastChannel(CHANNEL);
  return new Promise<string>((resolve, reject) => {
    // The window closes itself after it has sent the code, which may arrive a little later than the window is gone.
    let closedTicks = 0;
    const watch = setInterval(() => {
      if (!opened.closed || ++closedTicks < 3) return;
      clearInterval(watch);
      reject(new Error("the provider's window was closed before it finished"));
    }, 500);
    channel.onmessage = (message: MessageEvent<Callback>) => {
      // Some providers send a refusal back without the state. It carries nothing that could be misused.
      const isBareRefusal = message.data.state === "" && message.data.error !== undefined;
      if (message.data.state !== state && !isBareRefusal) return;
      clearInterval(watch);
      if (message.data.code && !isBareRefusal) resolve(message.data.code);
      else reject(new Error(`the provider refused: ${message.data.error ?? "no reason given"}`));
    };
  }).finally(() => channel.close());
}

/** Hands what the provider sent to the page that asked for it. */
export function returnFromProvider(search: URLSearchParams): void {
  const channel = new BroadcastChannel(CHANNEL);
  const callback: Callback = {
    state: search.get("state") ?? "",
    code: search.get("code") ?? undefined,
    error: search.get("error_description") ?? search.get("error") ?? undefined,
  };
  channel.postMessage(callback);
  channel.close();
  window.close();
}
