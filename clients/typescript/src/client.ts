// The client.

import { pause, type RequestOptions } from "./caller.js";
import { WaitTimeoutError } from "./errors.js";
import { Export, type ExportOptions } from "./exports.js";
import { type ExportRowsQuery, Operations } from "./generated/operations.js";
import type { ObjectAnalysis } from "./generated/records.js";
import { Ingester, type IngesterOptions } from "./ingester.js";
import { responseOf } from "./response.js";
import { verifyWebhook } from "./webhooks.js";

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 2_000;
/** What the last read may take, when the time is up. */
const LAST_READ_MS = 2_000;

/** How long to wait for answers, and for which. */
export interface WaitOptions extends RequestOptions {
  /** The keys to wait for; by default all enabled signals. */
  signals?: readonly string[] | undefined;
  /**
   * Only answers count that were computed since then: a time, or what `ingestEvents` returned (by the service's clock,
   * to the second).
   */
  since?: Date | object | undefined;
  /** How many milliseconds to wait; 60,000 by default. */
  waitFor?: number | undefined;
}

/**
 * Calls a service as one account. Every operation is a method; see {@link ClientOptions} for the options.
 */
export class Auspex extends Operations {
  /** Verifies a webhook delivery; see the function of the same name. */
  verifyWebhook(...given: Parameters<typeof verifyWebhook>): ReturnType<typeof verifyWebhook> {
    return verifyWebhook(...given);
  }

  /**
   * Waits until an object has answers, and returns them.
   *
   * @throws {@link WaitTimeoutError} They did not arrive in time; `pending` lists the keys.
   * @throws {@link NotFoundError} There is no such object.
   */
  async waitForAnswers(objectId: string, options: WaitOptions = {}): Promise<ObjectAnalysis> {
    const { signals, since, waitFor = 60_000, ...request } = options;
    const oldest = momentOf(since);
    const deadline = Date.now() + waitFor;
    for (let wait = FIRST_PAUSE_MS; ; wait = Math.min(wait * 1.5, LONGEST_PAUSE_MS)) {
      const totalTimeout = Math.min(request.totalTimeout ?? this.config.totalTimeout, Math.max(deadline - Date.now(), LAST_READ_MS));
      const found = await this.getObject(objectId, {}, { ...request, totalTimeout });
      const pending = pendingOf(found, signals, oldest);
      if (pending.length === 0) return found;
      const left = deadline - Date.now();
      if (left <= 0) {
        const message = `no answer of ${JSON.stringify(objectId)} to ${pending.join(", ")} within ${waitFor} ms`;
        throw new WaitTimeoutError(message, pending);
      }
      // Not all programs at the same instant.
      await pause(Math.min(wait * (0.75 + Math.random() / 2), left), request.signal);
    }
  }

  /** Exports everything of one kind: `for await (const row of client.export("events"))`, in bounded memory. */
  export(what: ExportRowsQuery["what"], options: ExportOptions = {}): Export {
    return new Export(this, what, options);
  }

  /** Sends events in the background, many to a request. */
  ingester(options: IngesterOptions = {}): Ingester {
    return new Ingester(this, options);
  }

  /** Shows the URL and the key, without the secret. */
  override toString(): string {
    return `Auspex(${this.config.baseUrl}, ${this.config.key})`;
  }
}

function momentOf(since: Date | object | undefined): number | undefined {
  if (since === undefined || since instanceof Date) return since?.getTime();
  const date = Date.parse(responseOf(since)?.headers.get("date") ?? "");
  return Number.isNaN(date) ? undefined : date;
}

/** The signals without an answer that is recent enough. */
function pendingOf(found: ObjectAnalysis, signals: readonly string[] | undefined, oldest: number | undefined): string[] {
  const isRecent = (computedAt: string) => oldest === undefined || Date.parse(computedAt) >= oldest;
  const recent = new Set(found.analysis.filter((answer) => isRecent(answer.computed_at)).map((answer) => answer.key));
  const wanted = signals?.length ? signals : [...found.pending, ...found.analysis.map((answer) => answer.key)];
  return wanted.filter((key) => !recent.has(key));
}
