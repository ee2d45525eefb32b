// What a rule does when it fires: its form values, and in words.
import type { Schemas } from "../../api/client";
import type { ActionType, Rule } from "./queries";

export const ACTIONS: { id: ActionType; label: string; hint: string }[] = [
  { id: "email", label: "Send an email", hint: "To one address. Where the operator asks for it, the recipient confirms once." },
  { id: "slack", label: "Post to Slack", hint: "By an incoming webhook of Slack." },
  { id: "webhook", label: "Call a webhook", hint: "One of your endpoints, signed and retried." },
  { id: "review", label: "Open a review", hint: "Puts the object into a queue for people." },
];

/** The configuration that the fields of a form stand for. */
export function configOf(type: ActionType, values: Record<string, string>, signals: readonly string[]): Schemas["ActionConfig"] {
  const text = (name: string) => values[name]?.trim() || undefined;
  if (type === "email") return { to: text("to") ?? "", subject: text("subject") };
  if (type === "slack") return { webhook_url: text("webhook_url") ?? "" };
  if (type === "webhook") return { endpoint_id: text("endpoint_id") ?? "" };
  return { queue: text("queue") ?? "", signals: signals.length > 0 ? [...signals] : undefined };
}

/** Takes `action_config.` off an error's field: in the form, the field is called what comes after. */
export function withoutPrefix(error: unknown): unknown {
  if (error instanceof Error && error.message.startsWith("action_config.")) error.message = error.message.slice("action_config.".length);
  return error;
}

/** What the rule does, in a few words. */
export function actionText({ action_type, action_config }: Rule, endpoints: readonly Schemas["WebhookEndpoint"][] | undefined): string {
  if (action_type === "email") return `Email to ${action_config.to}`;
  if (action_type === "slack") return "Slack message";
  if (action_type === "review") return `Review in ${action_config.queue}`;
  if (!endpoints) return "Webhook";
  const endpoint = endpoints.find((candidate) => candidate.id === action_config.endpoint_id);
  return endpoint ? `Webhook to ${new URL(endpoint.url).host}` : "Webhook to a deleted endpoint";
}

const UNITS: [number, string][] = [
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
];

/** "once when it turns true", "at most every 2 hours". */
export function cooldownText(seconds: number): string {
  if (seconds === 0) return "once, when the condition turns true";
  const [length, unit] = UNITS.find(([candidate]) => seconds % candidate === 0) ?? [1, "second"];
  const amount = seconds / length;
  return amount === 1 ? `at most once ${unit === "hour" ? "an" : "a"} ${unit}` : `at most every ${amount} ${unit}s`;
}
