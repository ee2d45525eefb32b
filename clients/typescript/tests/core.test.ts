// What the stories cannot show: the parts of the core that are pure, and the client against a scripted `fetch`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inspect } from "node:util";
import vm from "node:vm";

import {
  AbortedError,
  APIConnectionError,
  APIStatusError,
  type AttemptInfo,
  Auspex,
  AuspexError,
  AuthenticationError,
  BadRequestError,
  type ClientOptions,
  ConflictError,
  type FailedBatch,
  ForbiddenError,
  IngestError,
  NotFoundError,
  PayloadTooLargeError,
  PaymentRequiredError,
  RateLimitError,
  ServerError,
  UnprocessableError,
  UnreadableResponseError,
  UsageError,
  verifyWebhook,
  WaitTimeoutError,
  WebhookVerificationError,
} from "auspex";

import { Batches } from "../src/batches.js";
import type { Config } from "../src/config.js";
import { backoff, isTransient, parseRetryAfter, retryDelay } from "../src/retry.js";
import { base64url, decodeBase64, hmacKey, signToken, utf8 } from "../src/signing.js";
import { fails } from "./stories.js";
import { account } from "./world.js";

interface Vectors {
  hmac: { key: string; message: string; signature: string };
  retry_after: { headers: Record<string, string>; seconds: number | null }[];
  retries: {
    failure: { status?: number; retry_after?: number; connected?: boolean; events_recorded?: boolean };
    repeatable: boolean;
    retried: boolean;
  }[];
  webhooks: {
    name: string;
    body: string;
    headers: Record<string, string>;
    secrets: string[];
    now: number;
    error: string | null;
  }[];
}

const root = new URL("../../../", import.meta.url);
const vectors = JSON.parse(readFileSync(new URL("testing/vectors.json", root), "utf8")) as Vectors;
const ACCEPTED = { object_id: "a", accepted: 1, analysis_status: "scheduled", analysis_delay_ms: 1 };
const SALE = { type: "event", name: "sale" } as const;

type Answer = { status?: number; json?: unknown; text?: string; headers?: Record<string, string> };
type Handler = (request: Request) => Answer | Promise<Answer>;

/** A client whose requests are answered by a function. */
function scripted(handler: Handler, options: ClientOptions = {}): Auspex {
  const answer: typeof fetch = async (input, init) => {
    const { status = 200, json, text, headers = {} } = await handler(new Request(input as string, init));
    return new Response(text ?? JSON.stringify(json ?? {}), { status, headers });
  };
  const client = new Auspex({ baseUrl: "http://service", key: "ak_1", secret: "sk_1", fetch: answer, ...options });
  // No test waits for a retry.
  (client as unknown as { config: Config }).config.retries.firstDelayMs = 0;
  return client;
}

const pieces = (token: string) => token.split(".") as [string, string, string];
const decoded = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;

test("a token is bound to method, path and minute", async () => {
  const key = await hmacKey(utf8("sk_1"));
  const [header, claims, signature] = pieces(await signToken("ak_1", key, 1_700_000_000_900, "GET", "/v1/objects/a ü"));
  assert.deepEqual(decoded(header), { alg: "HS256", typ: "JWT", kid: "ak_1" });
  const { iat, exp, htm, htu } = decoded(claims);
  assert.deepEqual([iat, exp, htm, htu], [1_700_000_000, 1_700_000_060, "GET", "/v1/objects/a ü"]);
  const bytes = new Uint8Array(Buffer.from(signature, "base64url"));
  assert.ok(await crypto.subtle.verify("HMAC", key, bytes, utf8(`${header}.${claims}`)));
});

test("the vector of RFC 7515", async () => {
  const { key, message, signature } = vectors.hmac;
  const imported = await hmacKey(new Uint8Array(Buffer.from(key, "base64url")));
  const found = await crypto.subtle.sign("HMAC", imported, utf8(message));
  assert.equal(base64url(new Uint8Array(found)), signature);
});

test("what is retried", () => {
  for (const { failure, repeatable, retried } of vectors.retries) {
    const { status, retry_after: retryAfter, connected = true, events_recorded: eventsRecorded } = failure;
    const found = isTransient({ status, retryAfter, connected, eventsRecorded }, repeatable);
    assert.equal(found, retried, JSON.stringify({ failure, repeatable }));
  }
});

test("delays double up to a limit and end", () => {
  const retries = { limit: 4, firstDelayMs: 250, maxRetryAfterMs: 60_000 };
  const failure = { status: 503, connected: true };
  const delays = [1, 2, 3, 4, 5].map((attempt) => retryDelay(retries, attempt, true, failure, 0));
  assert.deepEqual(delays, [125, 250, 500, 1_000, undefined]);
  assert.equal(backoff(250, 1_000_000, 1), 10_000);
  const asked = retryDelay(retries, 1, false, { status: 429, connected: true, retryAfter: 30 }, 0.5);
  assert.ok(asked !== undefined && asked > 30_000 && asked < 31_000);
  assert.equal(retryDelay(retries, 1, false, { status: 429, connected: true, retryAfter: 61 }, 0.5), undefined);
});

test("Retry-After is seconds or a date", () => {
  for (const { headers, seconds } of vectors.retry_after) {
    assert.equal(parseRetryAfter(new Headers(headers)) ?? null, seconds, JSON.stringify(headers));
  }
});

for (const vector of vectors.webhooks) {
  test(`webhook: ${vector.name}`, async () => {
    const verified = verifyWebhook(vector.body, vector.headers, vector.secrets, { now: vector.now });
    if (vector.error === null) {
      assert.deepEqual(await verified, JSON.parse(vector.body));
    } else {
      assert.match((await fails(verified, WebhookVerificationError)).message, new RegExp(vector.error));
    }
  });
}

test("a webhook may come as bytes, pairs or Headers", async () => {
  const vector = vectors.webhooks[0];
  assert.ok(vector);
  const [secret] = vector.secrets as [string];
  const options = { now: vector.now };
  for (const headers of [new Headers(vector.headers), Object.entries(vector.headers), vector.headers]) {
    for (const body of [vector.body, utf8(vector.body), utf8(vector.body).buffer]) {
      assert.deepEqual(await verifyWebhook(body, headers, secret, options), JSON.parse(vector.body));
    }
  }
  await fails(verifyWebhook(vector.body, {}, []), UsageError);
  assert.equal(decodeBase64("no base64"), undefined);
});

test("every status has its error", async () => {
  const kinds = new Map<number, unknown>([
    [400, BadRequestError],
    [401, AuthenticationError],
    [402, PaymentRequiredError],
    [403, ForbiddenError],
    [404, NotFoundError],
    [409, ConflictError],
    [413, PayloadTooLargeError],
    [418, APIStatusError],
    [422, UnprocessableError],
    [429, RateLimitError],
    [500, ServerError],
    [502, ServerError],
    [302, APIStatusError],
  ]);
  for (const [status, kind] of kinds) {
    const json = { error: { code: "some_code", message: "some message" } };
    const client = scripted(() => ({ status, json, headers: { "x-request-id": "r1" } }), { maxRetries: 0 });
    const error = await fails(client.getMe(), AuspexError);
    assert.equal(error.constructor, kind);
    assert.deepEqual([error.status, error.code, error.message, error.requestId], [status, "some_code", "some message", "r1"]);
    assert.equal(error.name, (kind as { name: string }).name);
  }
});

test("an error of a proxy is no error of the service", async () => {
  const error = await fails(scripted(() => ({ status: 502, text: "<html>" }), { maxRetries: 0 }).getMe(), ServerError);
  assert.match(error.message, /something other than the service/);
  assert.equal(error.code, undefined);
  await fails(scripted(() => ({ text: "<html>" })).getMe(), UnreadableResponseError);
});

test("retries have the same idempotency key and a new token", async () => {
  const seen: Request[] = [];
  const client = scripted((request) => {
    seen.push(request);
    return { status: seen.length < 3 ? 503 : 202, json: ACCEPTED };
  });
  await client.ingestEvents("a", { events: [SALE], object_type: undefined });
  const of = (name: string) => new Set(seen.map((request) => request.headers.get(name)));
  assert.deepEqual([seen.length, of("idempotency-key").size, of("authorization").size], [3, 1, 3]);
  assert.match(seen[0]?.headers.get("user-agent") ?? "", /^auspex-typescript\/.* node\//);
  assert.deepEqual(await seen[0]?.json(), { events: [SALE] });
});

test("a verdict is not repeated when the service may have processed it", async () => {
  let calls = 0;
  const client = scripted(() => {
    calls += 1;
    throw new TypeError("fetch failed");
  });
  await fails(client.ingestEvents("a", { events: [SALE], wait: true }), APIConnectionError);
  assert.equal(calls, 1);
});

test("a call can be aborted, while it waits too", async () => {
  let calls = 0;
  const client = scripted(() => {
    calls += 1;
    return { status: 429, headers: { "retry-after": "30" } };
  });
  const controller = new AbortController();
  const call = client.getMe({}, { signal: controller.signal });
  setTimeout(() => controller.abort(), 20);
  await fails(call, AbortedError);
  await fails(client.getMe({}, { signal: AbortSignal.abort() }), AuspexError);
  assert.ok(calls >= 1);
});

test("options of one call", async () => {
  const tags: (string | null)[] = [];
  const client = scripted((request) => {
    tags.push(request.headers.get("x-tag"));
    return { status: 503 };
  });
  await fails(client.getMe({}, { maxRetries: 1, headers: { "x-tag": "t" } }), ServerError);
  assert.deepEqual(tags, ["t", "t"]);
});

test("what is sent: bodies, queries, times and ids", async () => {
  const seen: [string, string][] = [];
  const client = scripted(async (request) => {
    seen.push([request.url.replace("http://service", ""), await request.text()]);
    return {};
  });
  await client.updateSettings({ event_retention_days: null });
  await client.createApiKey();
  await client.listObjects({ q: "a > 0.5 & b=ü", limit: 3, cursor: undefined }).page();
  const at = new Date("2026-01-02T03:04:05Z");
  await client.ingestEvents("a(b)'!*", { events: [{ type: "event", occurred_at: at }] });
  assert.deepEqual(seen, [
    ["/v1/settings", '{"event_retention_days":null}'],
    ["/v1/api_keys", "{}"],
    ["/v1/objects?q=a%20%3E%200.5%20%26%20b%3D%C3%BC&limit=3", ""],
    ["/v1/objects/a%28b%29%27%21%2A/events", '{"events":[{"type":"event","occurred_at":"2026-01-02T03:04:05.000Z"}]}'],
  ]);
  for (const id of ["", ".", "..", "\ud800"]) await fails(client.getObject(id), UsageError);
});

test("settings come from the environment, and bad ones are refused", () => {
  const kept = { ...process.env };
  const names = ["AUSPEX_URL", "AUSPEX_KEY", "AUSPEX_SECRET"];
  for (const name of names) delete process.env[name];
  assert.throws(() => new Auspex(), /AUSPEX_URL/);
  Object.assign(process.env, { AUSPEX_URL: "https://auspex.example/", AUSPEX_KEY: "ak_env", AUSPEX_SECRET: "sk_env" });
  assert.equal(String(new Auspex()), "Auspex(https://auspex.example, ak_env)");
  Object.assign(process.env, kept);
  const bad: [ClientOptions, RegExp][] = [
    [{ baseUrl: "ftp://x" }, /baseUrl/],
    [{ baseUrl: "http://user:pass@x" }, /baseUrl/],
    [{ baseUrl: "nonsense" }, /baseUrl/],
    [{ timeout: 0 }, /timeout/],
    [{ totalTimeout: Number.NaN }, /totalTimeout/],
    [{ maxRetries: -1 }, /maxRetries/],
    [{ key: "" }, /key/],
  ];
  for (const [options, message] of bad) {
    const whole = { baseUrl: "http://x", key: "k", secret: "s", ...options };
    assert.throws(() => new Auspex(whole), (error) => error instanceof UsageError && message.test(error.message));
  }
});

test("secrets are shown nowhere", async () => {
  const secret = "sk_very_secret";
  const attempts: AttemptInfo[] = [];
  const handler = (request: Request): Answer => {
    assert.ok(!JSON.stringify([...request.headers]).includes(secret));
    throw new TypeError("fetch failed");
  };
  const client = scripted(handler, { secret, maxRetries: 0, onAttempt: (attempt) => attempts.push(attempt) });
  const error = await fails(client.getMe(), AuspexError);
  const shown = [inspect(client, { depth: 9, showHidden: true }), inspect(error, { depth: 9 }), JSON.stringify(attempts)];
  for (const text of shown) assert.ok(!text.includes(secret) && !text.includes("Bearer"), text);
});

test("waiting ends in time", async () => {
  const client = scripted(() => ({ json: { object_id: "a", analysis: [], pending: ["x"] } }));
  const error = await fails(client.waitForAnswers("a", { waitFor: 50 }), WaitTimeoutError);
  assert.deepEqual(error.pending, ["x"]);
});

const namesOf = async (request: Request) =>
  ((await request.json()) as { events: { name: string }[] }).events.map((event) => event.name);

test("ingester: one bad event does not take the others with it", async () => {
  const recorded: string[] = [];
  const failed: FailedBatch[] = [];
  const client = scripted(async (request) => {
    const names = await namesOf(request);
    if (names.includes("bad")) return { status: 400, json: { error: { code: "bad_request", message: "events[2]: bad" } } };
    recorded.push(...names);
    return { status: 202, json: ACCEPTED };
  });
  const ingester = client.ingester({ onError: (failure) => failed.push(failure) });
  for (const name of ["1", "2", "bad", "3", "4", "5"]) {
    await ingester.send("a", { type: "event", name }, { objectType: "user" });
  }
  await ingester.close();
  assert.deepEqual(recorded, ["1", "2", "3", "4", "5"]);
  assert.deepEqual(failed.map(({ objectId, objectType, events, error }) => [objectId, objectType, events.length, error.status]), [
    ["a", "user", 1, 400],
  ]);
});

test("ingester: without a callback, failures are raised at the end", async () => {
  const json = { error: { code: "payment_required", message: "the balance is empty" } };
  const ingester = scripted(() => ({ status: 402, json })).ingester();
  for (let event = 0; event < 3; event += 1) await ingester.send("a", SALE);
  const error = await fails(ingester.close(), IngestError);
  assert.equal(error.failedEvents, 3);
  assert.match(error.message, /the balance is empty/);
  await fails(ingester.send("a", SALE), UsageError);
});

test("ingester: an outage is waited out with the same key, and one that lasts is reported", async () => {
  const keys: (string | null)[] = [];
  const client = scripted(
    (request) => {
      keys.push(request.headers.get("idempotency-key"));
      if (keys.length === 1) throw new TypeError("fetch failed");
      return { status: 202, json: ACCEPTED };
    },
    { maxRetries: 0 },
  );
  const ingester = client.ingester({ maxDelay: 0 });
  await ingester.send("a", SALE);
  await ingester.close();
  assert.deepEqual([keys.length, new Set(keys).size], [2, 1]);
  const failed: FailedBatch[] = [];
  const down = scripted(() => ({ status: 503 }), { maxRetries: 0 });
  const short = down.ingester({ retryFor: 0, onError: (failure) => failed.push(failure) });
  await short.send("a", SALE);
  await short.close();
  assert.deepEqual(failed.map((failure) => failure.error.status), [503]);
});

test("ingester: memory is bounded", async () => {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const client = scripted(async () => {
    await released;
    return { status: 202, json: ACCEPTED };
  });
  const ingester = client.ingester({ maxPendingEvents: 10, maxBatchEvents: 5 });
  let sent = 0;
  const sending = (async () => {
    for (; sent < 50; sent += 1) await ingester.send(`object/${sent % 3}`, SALE);
  })();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual([sent, ingester.pendingEvents], [10, 10]);
  release();
  await sending;
  await ingester.flush();
  assert.deepEqual([sent, ingester.pendingEvents], [50, 0]);
  await ingester.close();
});

test("ingester: senders that do not wait are delivered too, and within the limit", async () => {
  const recorded: string[] = [];
  let largest = 0;
  const client = scripted(async (request) => {
    largest = Math.max(largest, ingester.pendingEvents);
    recorded.push(...(await namesOf(request)));
    return { status: 202, json: ACCEPTED };
  });
  const ingester = client.ingester({ maxPendingEvents: 7 });
  const names = Array.from({ length: 60 }, (_, number) => String(number));
  const sends = names.map((name) => ingester.send("a", { type: "event", name }));
  await ingester.close();
  await Promise.all(sends);
  assert.deepEqual(recorded, names);
  assert.ok(largest <= 7, String(largest));
});

test("ingester: a flush waits for events that wait for room", async () => {
  const recorded: string[] = [];
  const client = scripted(async (request) => {
    recorded.push(...(await namesOf(request)));
    return { status: 202, json: ACCEPTED };
  });
  const ingester = client.ingester({ maxPendingEvents: 2, maxDelay: 60_000 });
  const names = ["0", "1", "2", "3", "4"];
  const sends = names.map((name) => ingester.send("a", { type: "event", name }));
  await ingester.flush();
  assert.deepEqual(recorded, names);
  await Promise.all(sends);
  await ingester.close();
});

test("ingester: the end of a block closes it", async () => {
  const recorded: string[] = [];
  const client = scripted(async (request) => {
    recorded.push(...(await namesOf(request)));
    return { status: 202, json: ACCEPTED };
  });
  {
    await using ingester = client.ingester({ maxDelay: 60_000 });
    await ingester.send("a", { type: "event", name: "sale" });
  }
  assert.deepEqual(recorded, ["sale"]);
});

test("events are grouped by object, size and type", () => {
  const limits = { maxBatchEvents: 3, maxBatchBytes: 1_000, maxDelay: 10, maxPendingEvents: 100, maxPendingBytes: 10_000 };
  const batches = new Batches(limits);
  const add = (id: string, json: string, now: number, type?: string) =>
    batches.add(id, type, { json, size: json.length }, now);
  for (const json of ["0", "1", "2", "3"]) add("a", json, 0);
  add("b", "5", 1, "user");
  add("b", "6", 2, "seller");
  add("c", "7".repeat(999), 3);
  add("c", "8", 3);
  const first = batches.take(3);
  assert.deepEqual(first?.events.map((event) => event.json), ["0", "1", "2"]);
  // Full, or of another type than what follows; the rest is not due.
  assert.deepEqual([batches.take(3)?.objectId, batches.take(3)?.objectId, batches.take(3)], ["b", "c", undefined]);
  // While a batch of an object is on its way, the next one waits.
  assert.equal(batches.take(99), undefined);
  batches.done(first);
  assert.deepEqual(batches.take(99)?.events.map((event) => event.json), ["3"]);
  assert.equal(batches.pendingEvents, 5);
});

test("bad limits are refused", async () => {
  const client = scripted(() => ({ status: 202, json: ACCEPTED }));
  for (const options of [{ maxBatchEvents: 501 }, { maxBatchBytes: 0 }, { maxPendingEvents: 0 }, { maxDelay: -1 }]) {
    assert.throws(() => client.ingester(options), UsageError);
  }
  await fails(client.ingester().send("", SALE), UsageError);
});

test("ingester: a duration may be infinite", async () => {
  let requests = 0;
  // An answer that takes a while, unless the request is aborted.
  const client = scripted(async (request) => {
    requests += 1;
    request.signal.throwIfAborted();
    await new Promise((resolve, reject) => {
      request.signal.addEventListener("abort", reject);
      setTimeout(resolve, 50);
    });
    return { status: 202, json: ACCEPTED };
  });
  const ingester = client.ingester({ maxDelay: Infinity, retryFor: Infinity, closeTimeout: Infinity });
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on("warning", warned);
  await ingester.send("a", SALE);
  await ingester.close();
  process.off("warning", warned);
  assert.deepEqual([requests, ingester.pendingEvents, warnings], [1, 0, []]);
});

test("ingester: what is left at close is returned, however much failed before", async () => {
  // What is left fails for the moment, and is tried again until the time is over.
  const client = scripted((request) => ({ status: request.url.includes("left") ? 503 : 402 }), { maxRetries: 0 });
  const ingester = client.ingester({ maxPendingEvents: 2, maxDelay: 60_000, closeTimeout: 10 });
  for (let number = 0; number < 3; number += 1) {
    await ingester.send(`refused/${number}`, SALE);
    await ingester.flush();
  }
  await ingester.send("left", SALE);
  const error = await fails(ingester.close(), IngestError);
  assert.equal(error.failedEvents, 4);
  assert.deepEqual(error.batches.map((batch) => batch.objectId), ["refused/0", "refused/1", "left"]);
});

test("ingester: a program that just ends loses nothing", async () => {
  const made = await account();
  const program = `
    import { Auspex } from "auspex";
    const ingester = new Auspex(${JSON.stringify(made)}).ingester({ maxDelay: 300 });
    for (let number = 0; number < 250; number += 1) await ingester.send("object/" + (number % 5), { type: "event" });
  `;
  // In the folder of the package, so that it finds itself by its name.
  const cwd = new URL("typescript/", root);
  execFileSync(process.execPath, ["--input-type=module", "--eval", program], { cwd, stdio: "inherit", timeout: 60_000 });
  const client = new Auspex(made);
  for (let number = 0; number < 5; number += 1) {
    assert.equal((await client.getObject(`object/${number}`)).event_count, 50);
  }
});

test("it needs nothing but what a worker has", async () => {
  // CommonJS, loaded by hand where there is no `process`, no `require` and no module of Node.
  const cache = new Map<string, { exports: Record<string, unknown> }>();
  const globals = { fetch, crypto, URL, Headers, Request, Response, TextEncoder, TextDecoder, AbortController, AbortSignal };
  const context = vm.createContext({ ...globals, setTimeout, clearTimeout, atob, btoa, console, Promise, Uint8Array });
  const load = (name: string): Record<string, unknown> => {
    const known = cache.get(name);
    if (known) return known.exports;
    const module = { exports: {} };
    cache.set(name, module);
    const source = readFileSync(new URL(`typescript/dist/cjs/${name}`, root), "utf8");
    const wrapped = vm.runInContext(`(function (module, exports, require) {${source}\n})`, context) as (
      ...given: unknown[]
    ) => void;
    wrapped(module, module.exports, (path: string) => {
      assert.match(path, /^\.\.?\//, `${name} requires ${path}`);
      return load(new URL(path, `file:///${name}`).pathname.slice(1));
    });
    return module.exports;
  };
  const loaded = load("index.js") as { Auspex: new (options: ClientOptions) => Auspex };
  assert.throws(() => new loaded.Auspex({}), /AUSPEX_URL/);
  const { AUSPEX_URL: baseUrl, AUSPEX_KEY: key, AUSPEX_SECRET: secret } = process.env;
  const me = await new loaded.Auspex({ baseUrl, key, secret }).getMe();
  assert.equal(me.auth_type, "tenant");
});
