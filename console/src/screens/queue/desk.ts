// The desk of one analyst at one queue: the reviews that are claimed, which one is looked at, and the next ones, claimed and loaded
// ahead. What a key does is visible at once; the requests follow, and what fails comes back.
import { sentenceOf } from "../../api/error";
import { timelineQuery, withTimelineQuery, type TimelineKind } from "../../api/objects";
import { claim, claimNext, openReviews, readReview, releaseOnLeave, releaseReview, reopenReview, resolveReview, type Review } from "../../api/reviews";
import { queries } from "../../api/session";
import { Store } from "../../api/store";
import type { LabelValue } from "../../parts/Label";
import { toast } from "../../parts/Toast";

/** What is shown of an object at the desk. */
export const DESK_KINDS: readonly TimelineKind[] = ["event", "firing", "label"];

/** An object as the desk shows it. */
export const deskObjectQuery = (objectId: string) => withTimelineQuery(objectId, DESK_KINDS);

export interface Item {
  review: Review;
  /** `lost`: somebody else has it now. */
  state: "open" | "resolving" | "resolved" | "skipped" | "lost";
  labels: Readonly<Record<string, LabelValue>>;
  /** As typed; empty for the decision that follows from the labels. */
  decision: string;
  note: string;
}

export interface DeskState {
  items: readonly Item[];
  /** The index of the item that is looked at; the length of `items` while the next is awaited, or when none is left. */
  at: number;
  /** No further review can be claimed. */
  exhausted: boolean;
  error?: unknown;
  /** When each review was resolved in this sitting. */
  resolvedAt: readonly number[];
}

/** How many reviews are claimed and loaded beyond the present one. */
const AHEAD = 2;
/** Claims are renewed after a third of the time that is left to them, within these bounds. */
const RENEW_MS = { least: 2_000, most: 60_000 };

/** The decision that follows from the labels, where none is typed. */
export function decisionOf(labels: Readonly<Record<string, LabelValue>>): string {
  const values = Object.values(labels);
  const sides = values.filter((value) => typeof value === "boolean");
  if (sides.length > 0) return sides.some(Boolean) ? "confirmed" : "dismissed";
  return values.length > 0 ? "labelled" : "";
}

export class Desk {
  readonly state = new Store<DeskState>({ items: [], at: 0, exhausted: false, resolvedAt: [] });
  readonly startedAt = Date.now();
  #filling: Promise<void> | undefined;
  #renewal: ReturnType<typeof setTimeout> | undefined;
  #pending = new Map<string, Promise<unknown>>();
  #done: string[] = [];
  #closed = false;

  constructor(
    readonly queue: string,
    readonly userId: string | undefined,
  ) {}

  get current(): Item | undefined {
    const { items, at } = this.state.get();
    return items[at];
  }

  /** Claims the first reviews; `first` is the one to begin with, where one was chosen. */
  async start(first?: string): Promise<void> {
    addEventListener("pagehide", this.#leave);
    if (first) {
      const review = await claim(first).catch(() => undefined);
      if (review) this.#add(review);
      else toast("Somebody else has that review. Here is the next one.", { tone: "bad" });
    }
    await this.#fill();
    this.#renewLater();
  }

  /** Gives back what is claimed and not resolved. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#renewal);
    removeEventListener("pagehide", this.#leave);
    this.#leave();
  }

  next(): void {
    const { items, at } = this.state.get();
    const later = items.findIndex((item, index) => index > at && item.state === "open");
    this.#set({ at: later < 0 ? items.length : later });
    void this.#fill();
  }

  previous(): void {
    const { at } = this.state.get();
    if (at === 0) return;
    this.#set({ at: at - 1 });
    void this.#visit();
  }

  /** Gives the present review back for others and goes on. It does not come again in this sitting. */
  skip(): void {
    const item = this.current;
    if (item?.state !== "open") return this.next();
    this.#update(item.review.id, { state: "skipped" });
    this.next();
    this.#track(item.review.id, releaseReview(item.review.id));
  }

  label(signal: string, value: LabelValue): void {
    const item = this.current;
    if (item?.state !== "open") return;
    const { [signal]: before, ...others } = item.labels;
    this.#update(item.review.id, { labels: before === value ? others : { ...others, [signal]: value } });
  }

  change(fields: Partial<Pick<Item, "decision" | "note">>): void {
    if (this.current) this.#update(this.current.review.id, fields);
  }

  /** Resolves the present review and goes on at once. Returns why not, in words, where something is missing. */
  resolve(): string | undefined {
    const item = this.current;
    if (!item || item.state !== "open") return item ? "This review is not yours to resolve." : undefined;
    const decision = item.decision.trim() || decisionOf(item.labels);
    if (decision === "") return "Label it first, or type a decision.";
    const { id, object_id } = item.review;
    this.#update(id, { state: "resolving", decision });
    this.#done.push(id);
    this.#set({ resolvedAt: [...this.state.get().resolvedAt, Date.now()] });
    this.next();
    const work = resolveReview(id, { decision, note: item.note.trim() || undefined, labels: item.labels }).then(
      (review) => {
        this.#update(id, { state: "resolved", review });
        void queries.invalidateQueries({ queryKey: ["object", object_id] });
        void queries.invalidateQueries({ queryKey: ["reviews"] });
      },
      (error: unknown) => this.#takeBack(id, error),
    );
    this.#track(id, work);
    return undefined;
  }

  /** Opens the review that was resolved last again and returns to it. */
  async undo(): Promise<void> {
    const id = this.#done.pop();
    if (!id) return toast("Nothing was resolved in this sitting.", { tone: "bad" });
    await this.#pending.get(id);
    if (this.#find(id)?.state !== "resolved") return;
    try {
      await reopenReview(id);
      const review = await claim(id);
      this.#update(id, review ? { state: "open", review } : { state: "lost" });
      this.#set({ at: this.#indexOf(id), resolvedAt: this.state.get().resolvedAt.slice(0, -1) });
      toast("It is open again, and its labels are withdrawn.");
      void queries.invalidateQueries({ queryKey: ["reviews"] });
    } catch (error) {
      this.#done.push(id);
      toast(sentenceOf(error), { tone: "bad" });
    }
  }

  /** Lets the skipped ones come again. */
  again(): void {
    const { items } = this.state.get();
    const kept = items.filter((item) => item.state !== "skipped");
    this.#set({ items: kept, at: kept.length, exhausted: false });
    void this.#fill();
  }

  retry(): void {
    this.#set({ error: undefined, exhausted: false });
    void this.#fill();
  }

  /** A resolution failed: the review is open again, and looked at. */
  #takeBack(id: string, error: unknown): void {
    this.#done = this.#done.filter((done) => done !== id);
    this.#update(id, { state: "open" });
    this.#set({ at: this.#indexOf(id), resolvedAt: this.state.get().resolvedAt.slice(0, -1) });
    toast(`It was not resolved: ${sentenceOf(error)}`, { tone: "bad" });
  }

  /** Claims until enough reviews are ahead. One filling at a time. */
  #fill(): Promise<void> {
    this.#filling ??= this.#fillNow().finally(() => {
      this.#filling = undefined;
    });
    return this.#filling;
  }

  async #fillNow(): Promise<void> {
    try {
      while (!this.#closed && !this.state.get().exhausted && this.#openFrom() <= AHEAD) {
        const review = await this.#claimAnother();
        if (!review) this.#set({ exhausted: true });
        else if (this.#closed) releaseOnLeave(review.id);
        else this.#add(review);
      }
      this.#set({ error: undefined });
    } catch (error) {
      this.#set({ error });
    }
  }

  /** How many reviews can be worked on from the present one on. */
  #openFrom(): number {
    const { items, at } = this.state.get();
    return items.filter((item, index) => index >= at && item.state === "open").length;
  }

  /** The most valuable review; if it is one that was skipped here, the best of the others. */
  async #claimAnother(): Promise<Review | undefined> {
    const review = await claimNext(this.queue);
    const seen = review && this.#find(review.id);
    if (!seen) return review;
    if (seen.state === "skipped") this.#track(review.id, releaseReview(review.id));
    else this.#update(review.id, { review, state: "open" });
    for (const candidate of await openReviews(this.queue)) {
      if (this.#find(candidate.id)) continue;
      const claimed = await claim(candidate.id);
      if (claimed) return claimed;
    }
    return undefined;
  }

  #add(review: Review): void {
    const { items } = this.state.get();
    const object = queries.prefetchQuery(deskObjectQuery(review.object_id));
    // Most often it came along; an old one is read again.
    void object.then(() => queries.prefetchInfiniteQuery(timelineQuery(review.object_id, DESK_KINDS)));
    this.#set({ items: [...items, { review, state: "open", labels: {}, decision: "", note: "" }] });
  }

  /** A review that was left may be somebody else's by now. */
  async #visit(): Promise<void> {
    const item = this.current;
    if (item?.state !== "skipped" && item?.state !== "lost") return;
    await this.#pending.get(item.review.id);
    const review = await claim(item.review.id).catch(() => undefined);
    this.#update(item.review.id, review ? { state: "open", review } : { state: "lost" });
  }

  #renewLater(): void {
    if (this.#closed) return;
    const { items, at } = this.state.get();
    const ends = items.flatMap((item, index) => (index >= at && item.state === "open" && item.review.claimed_until ? [Date.parse(item.review.claimed_until)] : []));
    const third = (Math.min(...ends) - Date.now()) / 3;
    const wait = Math.max(RENEW_MS.least, Math.min(RENEW_MS.most, third));
    this.#renewal = setTimeout(() => void this.#renew().finally(() => this.#renewLater()), wait);
  }

  /** Reading a review renews its claim. One that lapsed is claimed again, or lost. */
  async #renew(): Promise<void> {
    const { items, at } = this.state.get();
    for (const item of items.filter((candidate, index) => index >= at && candidate.state === "open")) {
      const read = await readReview(item.review.id).catch(() => undefined);
      if (!read) continue;
      const mine = read.status === "claimed" && (this.userId === undefined || read.claimed_by?.id === this.userId);
      const review = mine ? read : await claim(read.id).catch(() => undefined);
      this.#update(item.review.id, review ? { review } : { state: "lost" });
    }
  }

  readonly #leave = (): void => {
    for (const item of this.state.get().items) if (item.state === "open") releaseOnLeave(item.review.id);
  };

  #track(id: string, work: Promise<unknown>): void {
    const settled = work.catch(() => undefined).finally(() => this.#pending.get(id) === settled && this.#pending.delete(id));
    this.#pending.set(id, settled);
  }

  #indexOf(id: string): number {
    return this.state.get().items.findIndex((item) => item.review.id === id);
  }

  #find(id: string): Item | undefined {
    return this.state.get().items[this.#indexOf(id)];
  }

  #update(id: string, fields: Partial<Item>): void {
    this.#set({ items: this.state.get().items.map((item) => (item.review.id === id ? { ...item, ...fields } : item)) });
  }

  #set(fields: Partial<DeskState>): void {
    this.state.set({ ...this.state.get(), ...fields });
  }
}
