// A small marketplace, to see answers before one's own program sends anything.
import { api, take } from "../../api/client";

const STORY: { id: string; type: string; events: { type: "event" | "message"; name?: string; content?: string; metadata?: Record<string, unknown> }[] }[] = [
  {
    id: "demo/seller-1",
    type: "seller",
    events: [
      { type: "event", name: "signup", metadata: { name: "Quick Deals" } },
      { type: "message", content: "Phone, new in box, half price. Only today." },
      { type: "message", content: "Pay me by gift card and I ship today. Do not use the site, it takes too long." },
      { type: "event", name: "reported" },
    ],
  },
  {
    id: "demo/seller-2",
    type: "seller",
    events: [
      { type: "event", name: "signup", metadata: { name: "Maple Cycles" } },
      { type: "message", content: "The bicycle was serviced in spring, the receipt is in the photos. You are welcome to try it before you pay." },
      { type: "event", name: "order_shipped" },
    ],
  },
  {
    id: "demo/buyer-1",
    type: "buyer",
    events: [
      { type: "event", name: "signup", metadata: { name: "Robin" } },
      { type: "message", content: "Is the red one still there? I can pick it up on Saturday and pay through the site." },
    ],
  },
];

/** Sends the story and returns how many objects it is about. */
export async function playStory(): Promise<number> {
  for (const { id, type, events } of STORY) {
    await take(api.POST("/v1/objects/{object_id}/events", { params: { path: { object_id: id } }, body: { object_type: type, events } }));
  }
  return STORY.length;
}
