// The configuration of the sample account, made before its events so that they meet it: a signal with two versions, an endpoint that
// refuses what it gets, and rules that call it, open reviews, and only watch.
import { expect, type APIRequestContext } from "@playwright/test";

export interface Configuration {
  ruleId: string;
  endpointId: string;
}

export async function fillConfiguration(api: APIRequestContext, origin: string): Promise<Configuration> {
  const send = async (method: "post" | "put", path: string, data: unknown) => {
    const answer = await api[method](path, { data });
    expect(answer.ok(), `${method} ${path}: ${await answer.text()}`).toBe(true);
    return (await answer.json()) as { id: string; endpoint: { id: string } };
  };
  await send("put", "/v1/signals/off_platform", { type: "noul", instructions: "Does the user mention payment outside of the site?" });
  // Nothing is at this address of the service itself: it answers 404, which is final.
  const { endpoint } = await send("post", "/v1/webhooks", { url: `${origin}/hooks/marketplace`, description: "Marketplace back end" });
  const rule = await send("post", "/v1/rules", {
    name: "Suspend the listing",
    when: "is_scammer > 0.4 and trust_score < 1",
    action_type: "webhook",
    action_config: { endpoint_id: endpoint.id },
    cooldown_seconds: 3600,
  });
  await send("post", "/v1/rules", {
    name: "Borderline sellers",
    when: "is_scammer > 0.2 and not is_scammer > 0.8",
    action_type: "review",
    action_config: { queue: "sellers" },
    mode: "shadow",
  });
  return { ruleId: rule.id, endpointId: endpoint.id };
}
