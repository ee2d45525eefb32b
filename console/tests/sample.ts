// An account with something in it: objects with answers, a rule that fired, a webhook, a key that was revoked.
import { expect, type APIRequestContext } from "@playwright/test";

const MESSAGES: [id: string, name: string, text: string][] = [
  ["seller/7", "Kim", "Pay me by gift card and I ship today, not through the site. Untraceable payment only, I am tired of chargebacks"],
  ["seller/12", "Maple Cycles", "The bicycle was serviced in spring; you are welcome to try it before you pay"],
  ["buyer/3", "Robin", "Is the red one still there? I can pick it up on Saturday"],
  ["seller/31", "Quick Deals", "Half price, only today, send the money by wire and text me at 555-0100"],
  ["buyer/9", "Sam", "I compared the two and take the larger one. Where do I pay?"],
  ["listing/204", "Phone, new in box", "Not a scam! Urgent sale, no refunds, untraceable payment, crypto only"],
];

/** Fills an account and returns the id of its most interesting object. */
export async function fillAccount(api: APIRequestContext): Promise<string> {
  const send = async (method: "post" | "put" | "delete", path: string, data?: unknown) => {
    const answer = await api[method](path, data === undefined ? {} : { data });
    expect(answer.ok(), `${method} ${path}: ${await answer.text()}`).toBe(true);
    return answer.status() === 204 ? undefined : ((await answer.json()) as Record<string, unknown>);
  };
  const revoked = (await send("post", "/v1/api_keys", { name: "Old importer" })) as { api_key: { id: string } };
  await send("delete", `/v1/api_keys/${revoked.api_key.id}`);
  await send("post", "/v1/api_keys", { name: "Marketplace back end" });
  await send("put", "/v1/signals/off_platform", { type: "noul", instructions: "Does the user try to move the deal off the platform?" });
  await send("post", "/v1/rules", { name: "Likely scam", when: "is_scammer > 0.3", action_type: "email", action_config: { to: "trust@example.com" } });
  for (const [id, name, content] of MESSAGES) {
    await send("post", `/v1/objects/${encodeURIComponent(id)}/events`, {
      wait: true,
      object_type: id.split("/")[0],
      events: [
        { type: "event", name: "signup", metadata: { name } },
        { type: "message", content },
      ],
    });
  }
  return "seller/7";
}
