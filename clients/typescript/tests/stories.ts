// The stories of clients/stories.md, for every runtime.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import {
  APIConnectionError,
  APITimeoutError,
  type AttemptInfo,
  Auspex,
  AuthenticationError,
  BadRequestError,
  IngestError,
  isWebhook,
  NotFoundError,
  RateLimitError,
  responseOf,
  ServerError,
  UnprocessableError,
  verifyWebhook,
  WebhookVerificationError,
} from "auspex";

import { account, connect, receive, world } from "./world.js";

/** An id in which everything needs escaping. */
const OBJECT = "käufer/1 %2F?#&+ü😀";
const SALE = { type: "event", name: "sale" } as const;

type Kind<E> = abstract new (...given: never[]) => E;

/** Awaits an error of this class. */
export async function fails<E>(call: Promise<unknown>, kind: Kind<E>): Promise<E> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof kind, `${String(error)} is no ${kind.name}`);
    return error;
  }
  return assert.fail(`there was no ${kind.name}`);
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export const stories: Record<string, () => Promise<void>> = {
  async signs_any_object_id() {
    const client = await connect();
    const accepted = await client.ingestEvents(OBJECT, { object_type: "buyer", events: [SALE] });
    assert.deepEqual([accepted.object_id, accepted.accepted], [OBJECT, 1]);
    const found = await client.getObject(OBJECT);
    assert.deepEqual([found.object_id, found.object_type, found.event_count], [OBJECT, "buyer", 1]);
    const listed = await collect(client.listObjects({ q: "käufer/1 %2F?#&+" }));
    assert.deepEqual(listed.map((object) => object.object_id), [OBJECT]);
    await client.deleteObject(OBJECT);
    const error = await fails(client.getObject(OBJECT), NotFoundError);
    assert.deepEqual([error.status, error.code], [404, "not_found"]);
  },

  async refuses_a_wrong_secret() {
    const client = await connect({ secret: "sk_wrong_and_secret" });
    const error = await fails(client.getMe(), AuthenticationError);
    assert.deepEqual([error.status, error.code], [401, "unauthorized"]);
    assert.ok(error.requestId);
    for (const shown of [String(error), error.stack, JSON.stringify(error), String(client), JSON.stringify(client)]) {
      assert.ok(!shown?.includes("sk_wrong_and_secret"));
    }
  },

  async names_what_is_wrong() {
    const client = await connect();
    const shout = { type: "shout" } as never;
    const invalid = await fails(client.ingestEvents("a", { events: [SALE, shout] }), BadRequestError);
    assert.match(invalid.message, /events\[1\]\.type/);
    assert.deepEqual([invalid.status, invalid.code], [400, "bad_request"]);
    await fails(client.getRule("01a1e419-80df-765e-be81-84bb0285362b"), NotFoundError);
    const options = { idempotencyKey: "used" };
    await client.ingestEvents("a", { events: [SALE] }, options);
    const reused = await fails(client.ingestEvents("b", { events: [SALE] }, options), UnprocessableError);
    assert.equal(reused.code, "idempotency_key_reused");
  },

  async records_events_once() {
    const client = await connect();
    const options = { idempotencyKey: "order-17" };
    const first = await client.ingestEvents("a", { events: [SALE] }, options);
    const again = await client.ingestEvents("a", { events: [SALE] }, options);
    assert.deepEqual([responseOf(first)?.replayed, responseOf(again)?.replayed], [false, true]);
    assert.equal((await client.getObject("a")).event_count, 1);
  },

  async survives_a_lost_response() {
    const attempts: AttemptInfo[] = [];
    const name = `lost/${randomUUID()}`;
    const made = await account();
    const client = new Auspex({ ...made, baseUrl: world.lossy, onAttempt: (attempt) => attempts.push(attempt) });
    const accepted = await client.ingestEvents(name, { events: [SALE, SALE] });
    assert.ok(responseOf(accepted)?.replayed);
    assert.deepEqual(attempts.map((attempt) => attempt.status), [undefined, 202]);
    assert.ok(attempts[0]?.error && attempts[0].retryIn !== undefined);
    assert.equal((await client.getObject(name)).event_count, 2);
    // The first attempt deleted it; the second finds nothing, which is what was asked for.
    await client.deleteObject(name);
    assert.deepEqual(attempts.slice(-2).map((attempt) => attempt.status), [undefined, 404]);
  },

  async never_resends_recorded_events() {
    const attempts: AttemptInfo[] = [];
    const client = await connect({ onAttempt: (attempt) => attempts.push(attempt) }, "without_analyzer");
    const error = await fails(client.ingestEvents("a", { events: [SALE], wait: true }), ServerError);
    assert.ok(error.eventsRecorded);
    assert.equal(attempts.length, 1);
    assert.equal((await client.getObject("a")).event_count, 1);
  },

  async reports_a_rate_limit() {
    const insist = async (client: Auspex) => {
      for (let call = 0; call < 20; call += 1) await client.getMe();
    };
    const error = await fails(insist(await connect({ maxRetries: 0 }, "rate_limited")), RateLimitError);
    assert.ok(error.retryAfter !== undefined && error.retryAfter >= 0 && error.retryAfter <= 60);
    assert.ok(!error.eventsRecorded);
    // The wait would exceed what the call may take: there is no point in waiting.
    const started = Date.now();
    await fails(insist(await connect({ totalTimeout: 500 }, "rate_limited")), RateLimitError);
    assert.ok(Date.now() - started < 10_000);
  },

  async gives_up_at_the_deadline() {
    const made = { ...(await account()), baseUrl: world.silent };
    const started = Date.now();
    await fails(new Auspex({ ...made, timeout: 30_000, totalTimeout: 400 }).getMe(), APITimeoutError);
    const elapsed = Date.now() - started;
    assert.ok(elapsed > 300 && elapsed < 10_000, String(elapsed));
    const attempts: AttemptInfo[] = [];
    const options = { timeout: 100, maxRetries: 2, onAttempt: (attempt: AttemptInfo) => void attempts.push(attempt) };
    const error = await fails(new Auspex({ ...made, ...options }).getMe(), APITimeoutError);
    assert.match(error.message, /within 100 ms/);
    assert.equal(attempts.length, 3);
  },

  async fails_to_connect() {
    const attempts: AttemptInfo[] = [];
    // Nothing listens on this port.
    const options = { baseUrl: "http://127.0.0.1:65533", maxRetries: 1 };
    const client = await connect({ ...options, onAttempt: (attempt) => attempts.push(attempt) });
    // Not repeatable, but it has not reached the service.
    const error = await fails(client.runPlayground({ events: [SALE] }), APIConnectionError);
    assert.ok(!(error instanceof APITimeoutError));
    assert.deepEqual([attempts.length, error.status], [2, undefined], error.message);
  },

  async waits_for_answers() {
    const client = await connect();
    const message = { type: "message", content: "gift cards only" } as const;
    const accepted = await client.ingestEvents("a", { events: [message] });
    const found = await client.waitForAnswers("a", { since: accepted, waitFor: 30_000 });
    assert.deepEqual(found.pending, []);
    const keys = found.analysis.map((answer) => answer.key).sort();
    assert.deepEqual(keys, ["buyer_intent", "is_scammer", "trust_score"]);
    const one = await client.waitForAnswers("a", { signals: ["is_scammer"] });
    assert.equal(typeof one.analysis.find((answer) => answer.key === "is_scammer")?.noul, "number");
    const analyses = await client.listAnswers("a", { signal: "is_scammer" }).toArray();
    assert.deepEqual(analyses.map((analysis) => analysis.answers.length), [1]);
  },

  async returns_a_verdict() {
    const client = await connect();
    const verdict = await client.ingestEvents("a", { events: [SALE], wait: true, signals: ["trust_score"] });
    assert.ok(verdict.analyzed);
    assert.deepEqual(verdict.answers.map((answer) => [answer.signal, answer.type]), [["trust_score", "score"]]);
    const shares = Object.values(verdict.answers[0]?.probabilities ?? {});
    assert.ok(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 1) < 1e-5);
    const tried = await client.runPlayground({ events: [SALE], signals: ["is_scammer"] });
    assert.equal(tried.events_count, 1);
  },

  async pages_through_everything() {
    const client = await connect();
    const names = Array.from({ length: 7 }, (_, number) => `seller/${number}`);
    for (const name of names) await client.ingestEvents(name, { events: [SALE], wait: true });
    const byCursor = client.listObjects({ limit: 2 });
    assert.deepEqual((await collect(byCursor)).map((object) => object.object_id).sort(), names);
    assert.deepEqual((await collect(byCursor.pages())).map((page) => page.objects.length), [2, 2, 2, 1]);
    assert.equal((await byCursor.page()).objects.length, 2);
    const byOffset = await client.listObjects({ q: "is_scammer >= 0", limit: 2 }).toArray();
    assert.deepEqual(byOffset.map((object) => object.object_id).sort(), names);
    const entries = await client.listLedgerEntries({ type: "charge", limit: 2 }).toArray();
    assert.equal(new Set(entries.map((entry) => entry.id)).size, 7);
  },

  async asks_a_new_question() {
    const client = await connect();
    const question = { type: "score", instructions: "How kind?", criteria: ["not", "very"] } as const;
    const made = await client.putSignal("kind", question);
    assert.deepEqual([made.key, made.type, made.enabled], ["kind", "score", true]);
    assert.equal((await client.putSignal("kind", { ...question, instructions: "How?" })).instructions, "How?");
    assert.equal((await client.restoreSignalVersion("kind", 1)).instructions, "How kind?");
    const versions = await client.listSignalVersions("kind").toArray();
    assert.deepEqual(versions.map((each) => each.version), [3, 2, 1]);
    assert.ok((await client.listSignals().toArray()).some((signal) => signal.key === "kind"));
    assert.equal((await client.getBackfill("kind")).estimate.objects, 0);
    const checked = await client.checkCondition({ when: "kind >", for: "query" });
    assert.ok(!checked.valid && checked.error);
    await client.deleteSignal("kind");
    await fails(client.deleteSignal("kind"), NotFoundError);
  },

  async verifies_a_webhook() {
    const client = await connect();
    const receiver = await receive();
    const made = await client.createWebhook({ url: receiver.url, events: ["rule.triggered"] });
    const rule = await client.createRule({
      when: "is_scammer >= 0",
      action_type: "webhook",
      action_config: { endpoint_id: made.endpoint.id },
    });
    await client.ingestEvents("a", { events: [SALE], wait: true });
    const { headers, body } = await receiver.next;
    receiver.close();
    const payload = await verifyWebhook(body, headers, made.secret);
    assert.ok(isWebhook(payload, "rule.triggered"));
    assert.deepEqual([payload.rule_id, payload.object_id], [rule.id, "a"]);
    const other = `whsec_${"A".repeat(43)}=`;
    assert.deepEqual(await client.verifyWebhook(body, new Headers(headers as never), [other, made.secret]), payload);
    const now = Date.now() / 1000;
    await fails(verifyWebhook(new Uint8Array([...body, 32]), headers, made.secret), WebhookVerificationError);
    await fails(verifyWebhook(body, headers, other), WebhookVerificationError);
    await fails(verifyWebhook(body, headers, made.secret, { now: now + 600 }), WebhookVerificationError);
    await fails(verifyWebhook(body, headers, made.secret, { now: now - 600 }), WebhookVerificationError);
  },

  async looks_after_keys() {
    const client = await connect();
    const made = await client.createApiKey({ name: "second" });
    const second = new Auspex({ baseUrl: world.service, key: made.key, secret: made.secret });
    assert.equal((await second.getMe()).tenant_name, "Stories");
    await client.revokeApiKey(made.api_key.id);
    await fails(second.getMe(), AuthenticationError);
    assert.deepEqual((await client.listApiKeys().toArray()).map((key) => key.name), ["stories"]);
  },

  async reads_money_and_settings() {
    const client = await connect();
    await client.ingestEvents("a", { events: [SALE], wait: true });
    assert.equal((await client.getBilling()).currency, "usd");
    const reasons = (await client.listLedgerEntries().toArray()).map((entry) => entry.reason);
    assert.deepEqual(reasons.sort(), ["analysis", "signup_credit"]);
    const usage = await client.getUsage();
    assert.deepEqual([usage.totals.analyses, usage.series.at(-1)?.sync], [1, 1]);
    const changed = await client.updateSettings({ event_retention: "days", event_retention_days: 30 });
    assert.equal(changed.event_retention_days, 30);
    assert.equal((await client.getSettings()).event_retention, "days");
  },

  async exports_everything() {
    const client = await connect({ baseUrl: world.lossy });
    const contents = (part: number) => Array.from({ length: 100 }, (_, number) => `${part} ${number}\u2028\n`);
    for (const part of [0, 1, 2]) {
      const events = contents(part).map((content) => ({ type: "message", content }) as const);
      await client.ingestEvents(`seller/${part}`, { events });
    }
    const exported = client.export("events");
    const rows = await collect(exported);
    assert.deepEqual(rows.map((row) => row.content).sort(), [0, 1, 2].flatMap(contents).sort());
    assert.deepEqual([rows.length, exported.rows, exported.cursor], [300, 300, rows[299]?.cursor]);
    const rest = await collect(client.export("events", { cursor: rows[199]?.cursor }));
    assert.deepEqual(rest, rows.slice(200));
    await fails(collect(client.export("events", { cursor: "nonsense" })), BadRequestError);
    // Who stops in the middle leaves nothing open.
    for await (const row of client.export("events")) {
      assert.equal(row.cursor, rows[0]?.cursor);
      break;
    }
  },

  async closes_in_time() {
    // Nothing listens on this port.
    const client = await connect({ baseUrl: "http://127.0.0.1:65533" });
    const started = Date.now();
    const ingester = client.ingester({ maxDelay: 10, closeTimeout: 500 });
    for (let number = 0; number < 20; number += 1) {
      const event = { type: "event", name: "sale", metadata: { number } } as const;
      await ingester.send(`seller/${number % 10}`, event, { objectType: "seller" });
    }
    const error = await fails(ingester.close(), IngestError);
    assert.ok(Date.now() - started < 10_000);
    assert.equal(error.failedEvents, 20);
    const unsent = error.batches.flatMap((batch) => batch.events.map((event) => (JSON.parse(event) as typeof SALE & { metadata: { number: number } }).metadata.number));
    assert.deepEqual(unsent.sort((one, other) => one - other), Array.from({ length: 20 }, (_, number) => number));
    assert.ok(error.batches.every((batch) => batch.objectType === "seller"));
  },

  async sends_many_events() {
    const attempts: AttemptInfo[] = [];
    const client = await connect({ onAttempt: (attempt) => attempts.push(attempt) });
    const ingester = client.ingester({ maxDelay: 50, maxPendingEvents: 200 });
    for (let number = 0; number < 1_000; number += 1) {
      const event = { type: "event", name: "sale", metadata: { number } } as const;
      await ingester.send(`seller/${number % 20}`, event, { objectType: "seller" });
    }
    await ingester.close();
    assert.ok(attempts.length < 300, String(attempts.length));
    for (let seller = 0; seller < 20; seller += 1) {
      const events = await client.listEvents(`seller/${seller}`).toArray();
      const numbers = events.map((event) => (event.metadata as { number: number }).number);
      assert.deepEqual(numbers, Array.from({ length: 50 }, (_, index) => 980 + seller - 20 * index));
    }
  },
};
