// Groups events by object into requests. Free of input and output, timers and clocks.

/** What the service takes in one request. */
export const MAX_EVENTS = 500;
export const MAX_BYTES = 4 * 1024 * 1024 - 64 * 1024;

/** When a batch is sent, and how much may wait. */
export interface Limits {
  maxBatchEvents: number;
  maxBatchBytes: number;
  maxDelay: number;
  maxPendingEvents: number;
  maxPendingBytes: number;
}

/** An event, written as JSON, with its size in bytes. */
export interface EncodedEvent {
  json: string;
  size: number;
}

/** Events of one object that are sent in one request. */
export interface Batch {
  objectId: string;
  objectType: string | undefined;
  openedAt: number;
  events: EncodedEvent[];
  size: number;
  key: string;
}

/** The body of the request. */
export function bodyOf(batch: Batch): string {
  const head = batch.objectType === undefined ? "" : `"object_type":${JSON.stringify(batch.objectType)},`;
  return `{${head}"events":[${batch.events.map((event) => event.json).join(",")}]}`;
}

/** The batch in two, each with a key of its own. */
export function halves(batch: Batch): Batch[] {
  const middle = Math.floor(batch.events.length / 2);
  return [batch.events.slice(0, middle), batch.events.slice(middle)].map((events) => ({
    ...batch,
    events,
    size: events.reduce((sum, event) => sum + event.size, 0),
    key: crypto.randomUUID(),
  }));
}

/** All events that wait or are being sent. */
export class Batches {
  readonly #limits: Limits;
  // The batch of each object that takes events, oldest first.
  readonly #open = new Map<string, Batch>();
  readonly #full: Batch[] = [];
  readonly #sending = new Map<string, Batch>();
  pendingEvents = 0;
  pendingBytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Whether another event may wait. A single one always may. */
  hasRoomFor(size: number): boolean {
    if (this.pendingEvents === 0) return true;
    const { maxPendingEvents, maxPendingBytes } = this.#limits;
    return this.pendingEvents < maxPendingEvents && this.pendingBytes + size <= maxPendingBytes;
  }

  /** Adds an event to the batch of its object. */
  add(objectId: string, objectType: string | undefined, event: EncodedEvent, now: number): void {
    let batch = this.#open.get(objectId);
    if (batch && !this.#takes(batch, objectType, event.size)) {
      this.#fill(batch);
      batch = undefined;
    }
    if (!batch) {
      batch = { objectId, objectType, openedAt: now, events: [], size: 0, key: crypto.randomUUID() };
      this.#open.set(objectId, batch);
    }
    batch.objectType ??= objectType;
    batch.events.push(event);
    batch.size += event.size;
    this.pendingEvents += 1;
    this.pendingBytes += event.size;
    if (batch.events.length >= this.#limits.maxBatchEvents || batch.size >= this.#limits.maxBatchBytes) {
      this.#fill(batch);
    }
  }

  #takes(batch: Batch, objectType: string | undefined, size: number): boolean {
    const isSameType = objectType === undefined || batch.objectType === undefined || objectType === batch.objectType;
    return isSameType && batch.size + size < this.#limits.maxBatchBytes;
  }

  #fill(batch: Batch): void {
    this.#open.delete(batch.objectId);
    this.#full.push(batch);
  }

  /** When the next batch that can be sent has waited long enough. */
  nextDue(): number | undefined {
    for (const batch of this.#freeAndOpen()) return batch.openedAt + this.#limits.maxDelay;
    return undefined;
  }

  /**
   * Takes a batch to send. Of one object, one at a time: its events arrive in order.
   *
   * A batch takes events until it is full or taken. Full ones go first, then those that have waited long enough, or all
   * of them (`atOnce`), or the largest (`makeRoom`).
   */
  take(now: number, { atOnce = false, makeRoom = false } = {}): Batch | undefined {
    const index = this.#full.findIndex((batch) => !this.#sending.has(batch.objectId));
    const chosen = index >= 0 ? this.#full.splice(index, 1)[0] : this.#chooseOpen(now, atOnce, makeRoom);
    if (!chosen) return undefined;
    if (index < 0) this.#open.delete(chosen.objectId);
    this.#sending.set(chosen.objectId, chosen);
    return chosen;
  }

  #chooseOpen(now: number, atOnce: boolean, makeRoom: boolean): Batch | undefined {
    let largest: Batch | undefined;
    for (const batch of this.#freeAndOpen()) {
      // The first is the oldest.
      if (!largest && (atOnce || now >= batch.openedAt + this.#limits.maxDelay)) return batch;
      if (!makeRoom) return undefined;
      if (!largest || batch.size > largest.size) largest = batch;
    }
    return largest;
  }

  /** Open batches whose object has nothing else on the way, oldest first. */
  *#freeAndOpen(): Generator<Batch, void, undefined> {
    const waiting = new Set(this.#full.map((batch) => batch.objectId));
    for (const batch of this.#open.values()) {
      if (!this.#sending.has(batch.objectId) && !waiting.has(batch.objectId)) yield batch;
    }
  }

  /** The batch was delivered or given up. */
  done(batch: Batch): void {
    this.#sending.delete(batch.objectId);
    this.pendingEvents -= batch.events.length;
    this.pendingBytes -= batch.size;
  }

  /** The keys of all batches that are not done. */
  outstanding(): Set<string> {
    return new Set([...this.#open.values(), ...this.#full, ...this.#sending.values()].map((batch) => batch.key));
  }
}
