// An account with a hundred analyzed objects, labels and reviews, in words that the word counter understands.
import { expect, type APIRequestContext } from "@playwright/test";

const BAD = ["deceives others", "untraceable payment", "false claims", "pressure", "several reports", "money, goods or credentials"];
const GOOD = ["deals honestly", "ordinary mistakes", "settled disputes", "kept promises", "completed deals", "problems put right"];

/** The same text for the same index in every run. */
function textOf(index: number, bad: boolean): string {
  const phrases = bad ? BAD : GOOD;
  return Array.from({ length: 3 }, (_, step) => phrases[(index * 7 + step * (1 + (index % 5))) % phrases.length]).join(", ");
}

/** Whether the object is bad; of every five, one is not what its words say. */
const isBad = (index: number): boolean => index % 5 < 2;
const soundsBad = (index: number): boolean => (index % 10 === 9 ? !isBad(index) : isBad(index) && index % 4 !== 3);

export async function send(api: APIRequestContext, method: "get" | "post" | "put" | "patch" | "delete", path: string, data?: unknown): Promise<Record<string, unknown>> {
  const answer = await api[method](path, data === undefined ? {} : { data });
  expect(answer.ok(), `${method} ${path}: ${answer.status()} ${await answer.text()}`).toBe(true);
  const text = await answer.text();
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
}

/** Requests that are sent at once: the service writes them in one transaction. */
const AT_ONCE = 5;

export interface Amounts {
  objects?: number;
  /** How many of them are labelled. */
  labelled?: number;
}

/** Fills an account: a rule that opens reviews in the queue `scams`, objects, and labels of some of them. */
export async function fillLabelled(api: APIRequestContext, { objects = 100, labelled = 90 }: Amounts = {}): Promise<void> {
  await send(api, "post", "/v1/rules", { name: "Likely scam", when: "is_scammer > 0.5", action_type: "review", action_config: { queue: "scams", signals: ["is_scammer", "trust_score"] } });
  const tell = (index: number) =>
    send(api, "post", `/v1/objects/seller-${index}/events`, {
      wait: true,
      object_type: "seller",
      events: [
        { type: "event", name: "signup", metadata: { name: `Seller ${index}` } },
        { type: "message", content: textOf(index, soundsBad(index)) },
      ],
    });
  for (let start = 0; start < objects; start += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, objects - start) }, (_, index) => tell(start + index)));
  }
  const labels = Array.from({ length: labelled }, (_, index) => [
    { object_id: `seller-${index}`, signal: "is_scammer", value: isBad(index) },
    { object_id: `seller-${index}`, signal: "trust_score", value: isBad(index) ? 0 : 1 + (index % 2) },
    { object_id: `seller-${index}`, signal: "buyer_intent", value: index % 3 === 0 ? "comparing" : "browsing" },
  ]).flat();
  if (labels.length > 0) await send(api, "post", "/v1/labels", { labels });
}
