/// <reference lib="esnext.disposable" preserve="true" />
// Sends events in the background, many to a request.

import { Batches, type Batch, bodyOf, type EncodedEvent, halves, MAX_BYTES, MAX_EVENTS } from "./batches.js";
import { type Caller, pause } from "./caller.js";
import { notNegative, positive } from "./config.js";
import {
  APIConnectionError,
  AuspexError,
  BadRequestError,
  IngestError,
  PayloadTooLargeError,
  UsageError,
} from "./errors.js";
import type { EventInput } from "./generated/records.js";
import { backoff, isTransient } from "./retry.js";
import { utf8 } from "./signing.js";

// A timer with more milliseconds than this fires at once.
const LONGEST_TIMER = 2 ** 31 - 1;

/** The options of an ingester. */
export interface IngesterOptions {
  /** How many events one request has at most; 100 by default, 500 at most. */
  maxBatchEvents?: number;
  /** How many bytes one request has at most; 1 MiB by default. */
  maxBatchBytes?: number;
  /** How many milliseconds an event waits for others; 1,000 by default. */
  maxDelay?: number;
  /** How many events may wait until `send` waits; 10,000 by default. */
  maxPendingEvents?: number;
  /** How many bytes may wait until `send` waits; 32 MiB by default. */
  maxPendingBytes?: number;
  /** How many requests may be on the way at once; 4 by default. */
  maxInFlight?: number;
  /** For how many milliseconds temporary failures are retried; 300,000 by default. */
  retryFor?: number;
  /**
   * How many milliseconds `close` tries to deliver what is left; 30,000 by default. What is not delivered by then is given up
   * and reported.
   */
  closeTimeout?: number;
  /** Called with what cannot be delivered. Without it, `close` rejects with an {@link IngestError}. */
  onError?: (failure: FailedBatch) => void;
}

/** Events of one object that could not be delivered. */
export interface FailedBatch {
  objectId: string;
  objectType: string | undefined;
  /** Each event as JSON. */
  events: string[];
  /** Why. */
  error: AuspexError;
}

interface WaitingEvent {
  objectId: string;
  objectType: string | undefined;
  event: EncodedEvent;
  accept: () => void;
}

/**
 * Sends events in the background, many to a request.
 *
 * Events are grouped by object, and sent when there are `maxBatchEvents` or `maxBatchBytes` of them, or after `maxDelay`
 * milliseconds. Of one object they arrive in the order in which they were given. Await `send`: it waits while too much is
 * pending. Await `close` at the end, or say `await using`, which does it: it delivers everything, or says within `closeTimeout` what
 * it could not. Until then, timers keep the process alive.
 */
export class Ingester implements AsyncDisposable {
  readonly #caller: Caller;
  readonly #batches: Batches;
  readonly #maxInFlight: number;
  readonly #maxFailedEvents: number;
  readonly #retryFor: number;
  readonly #closeTimeout: number;
  // Aborted once the time to close is over.
  readonly #over = new AbortController();
  readonly #onError: ((failure: FailedBatch) => void) | undefined;
  #inFlight = 0;
  #closing = false;
  #flushing = 0;
  #failedEvents = 0;
  #failures: FailedBatch[] = [];
  #lastFailure: FailedBatch | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  // Events that wait for room, in order.
  readonly #waiting: WaitingEvent[] = [];
  // When the last of them was let in.
  #lastAccepted: Promise<void> = Promise.resolve();
  // Flushes that wait for a batch to be done.
  #watchers: (() => void)[] = [];

  /** @internal */
  constructor(caller: Caller, options: IngesterOptions) {
    const limits = {
      maxBatchEvents: within("maxBatchEvents", options.maxBatchEvents ?? 100, MAX_EVENTS),
      maxBatchBytes: within("maxBatchBytes", options.maxBatchBytes ?? 1024 * 1024, MAX_BYTES),
      maxDelay: notNegative("maxDelay", options.maxDelay ?? 1_000),
      maxPendingEvents: positive("maxPendingEvents", options.maxPendingEvents ?? 10_000),
      maxPendingBytes: positive("maxPendingBytes", options.maxPendingBytes ?? 32 * 1024 * 1024),
    };
    this.#caller = caller;
    this.#batches = new Batches(limits);
    this.#maxFailedEvents = limits.maxPendingEvents;
    this.#maxInFlight = positive("maxInFlight", options.maxInFlight ?? 4);
    this.#retryFor = notNegative("retryFor", options.retryFor ?? 300_000);
    this.#closeTimeout = notNegative("closeTimeout", options.closeTimeout ?? 30_000);
    this.#onError = options.onError;
  }

  /** How many events wait or are being sent. */
  get pendingEvents(): number {
    return this.#batches.pendingEvents;
  }

  /** Hands over an event; waits while too much is pending. */
  async send(objectId: string, event: EventInput, options: { objectType?: string | undefined } = {}): Promise<void> {
    if (["", ".", ".."].includes(objectId)) throw new UsageError("objectId: it must not be empty, `.` or `..`");
    // Written now: the program may change the event later.
    const json = JSON.stringify(event);
    const size = utf8(json).length + 1;
    if (this.#closing) throw new UsageError("the ingester is closed");
    const accepted = new Promise<void>((accept) => {
      this.#waiting.push({ objectId, objectType: options.objectType, event: { json, size }, accept });
    });
    this.#lastAccepted = accepted;
    this.#letIn();
    this.#pump();
    return accepted;
  }

  /** Waits until everything that was handed over so far is delivered or given up. */
  async flush(): Promise<void> {
    this.#flushing += 1;
    try {
      this.#pump();
      // Events are let in in their order: with the last one, none of those that waited for room does so any more.
      await this.#lastAccepted;
      const waiting = this.#batches.outstanding();
      while ([...this.#batches.outstanding()].some((key) => waiting.has(key))) {
        await new Promise<void>((resolve) => this.#watchers.push(resolve));
      }
    } finally {
      this.#flushing -= 1;
    }
  }

  /**
   * Delivers everything and ends, within `closeTimeout`. Rejects with an {@link IngestError}, which has the events, if something
   * failed and there is no `onError`. What was being sent when the time was over may have been recorded all the same.
   */
  async close(): Promise<void> {
    this.#closing = true;
    const timer = setTimeout(() => this.#over.abort(), Math.min(this.#closeTimeout, LONGEST_TIMER));
    try {
      await this.flush();
    } finally {
      clearTimeout(timer);
    }
    if (this.#lastFailure) {
      const { error } = this.#lastFailure;
      const [count, failures] = [this.#failedEvents, this.#failures];
      [this.#lastFailure, this.#failedEvents, this.#failures] = [undefined, 0, []];
      throw new IngestError(`${count} events were not delivered; the last error: ${error.message}`, count, error, failures);
    }
  }

  /** Closes it at the end of a block: `await using ingester = client.ingester()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Takes the events that wait, in order, while there is room. */
  #letIn(): void {
    for (let next = this.#waiting[0]; next && this.#batches.hasRoomFor(next.event.size); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#batches.add(next.objectId, next.objectType, next.event, Date.now());
      next.accept();
    }
  }

  /** Sends what is to be sent, and sets the timer for the rest. */
  #pump(): void {
    clearTimeout(this.#timer);
    while (this.#inFlight < this.#maxInFlight) {
      const choice = { atOnce: this.#closing || this.#flushing > 0, makeRoom: this.#waiting.length > 0 };
      const batch = this.#batches.take(Date.now(), choice);
      if (!batch) {
        const due = this.#batches.nextDue();
        if (due !== undefined) {
          this.#timer = setTimeout(() => this.#pump(), Math.min(Math.max(due - Date.now(), 0), LONGEST_TIMER));
        }
        return;
      }
      this.#inFlight += 1;
      void this.#send(batch);
    }
  }

  async #send(batch: Batch): Promise<void> {
    const over = { signal: this.#over.signal, reason: `not delivered within ${this.#closeTimeout} ms after close` };
    for (const failure of await deliver(this.#caller, batch, this.#retryFor, over)) this.#report(failure);
    this.#inFlight -= 1;
    this.#batches.done(batch);
    this.#letIn();
    this.#pump();
    const watchers = this.#watchers;
    this.#watchers = [];
    for (const watcher of watchers) watcher();
  }

  #report(failure: FailedBatch): void {
    if (!this.#onError) {
      this.#failedEvents += failure.events.length;
      this.#lastFailure = failure;
      // Bounded like what waits: a program that ignores failures must not run out of memory by them. What is left when it is
      // closed is bounded already.
      if (this.#closing || this.#failedEvents <= this.#maxFailedEvents) this.#failures.push(failure);
      return;
    }
    try {
      this.#onError(failure);
    } catch (error) {
      // A bug of the program, which must not stop the delivery of what else waits.
      console.error("onError of the ingester failed:", error);
    }
  }
}

/** When delivering ends whatever is left, and what is said about the rest. */
interface Over {
  signal: AbortSignal;
  reason: string;
}

/** Sends a batch, for as long as it may help; returns what could not be delivered. */
async function deliver(caller: Caller, batch: Batch, retryFor: number, over: Over): Promise<FailedBatch[]> {
  const giveUpAt = Date.now() + retryFor;
  const path = ["v1", "objects", batch.objectId, "events"];
  const call = { method: "POST", path, body: bodyOf(batch), idempotent: true, repeatable: true };
  for (let round = 1; ; round += 1) {
    try {
      await caller.call(call, { idempotencyKey: batch.key, signal: over.signal });
      return [];
    } catch (caught) {
      if (over.signal.aborted) return [failedBatch(batch, new AuspexError(over.reason, { cause: caught }))];
      const error = caught instanceof AuspexError ? caught : new AuspexError(String(caught), { cause: caught });
      if (error.eventsRecorded) return [];
      const isInvalid = error instanceof BadRequestError || error instanceof PayloadTooLargeError;
      if (isInvalid && batch.events.length > 1) break;
      const delay = Math.max(backoff(1_000, round, Math.random()), (error.retryAfter ?? 0) * 1000);
      if (!isTemporary(error) || Date.now() + delay > giveUpAt) return [failedBatch(batch, error)];
      // If the time is over meanwhile, the next attempt ends at once.
      await pause(delay, over.signal).catch(() => undefined);
    }
  }
  // One event is invalid, and must not take the others with it.
  const failed: FailedBatch[] = [];
  for (const half of halves(batch)) failed.push(...(await deliver(caller, half, retryFor, over)));
  return failed;
}

function failedBatch({ objectId, objectType, events }: Batch, error: AuspexError): FailedBatch {
  return { objectId, objectType, events: events.map((event) => event.json), error };
}

function isTemporary(error: AuspexError): boolean {
  if (error instanceof APIConnectionError) return true;
  return error.status !== undefined && isTransient({ status: error.status, connected: true }, true);
}

function within(name: string, value: number, most: number): number {
  if (!(value >= 1 && value <= most)) throw new UsageError(`${name}: it must be from 1 to ${most}`);
  return value;
}
