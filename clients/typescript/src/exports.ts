// Exports: everything of one kind, row by row and in bounded memory, over as many connections as that takes.

import { type Call, type Caller, pause, type RequestOptions, StreamFailure } from "./caller.js";
import { APIConnectionError, UnreadableResponseError } from "./errors.js";
import type { ExportRowsQuery } from "./generated/operations.js";
import { retryDelay } from "./retry.js";

/** What is exported, and how it is read. `totalTimeout` does not count; `timeout` is for the wait for each piece. */
export type ExportOptions = Omit<ExportRowsQuery, "what" | "format"> & Omit<RequestOptions, "totalTimeout" | "idempotencyKey">;

/** A row: the record, and the cursor by which another export goes on after it. */
export type ExportRow = Record<string, unknown> & { cursor: string };

/**
 * An export under way: `for await` yields its rows. A connection that breaks is opened again, and the export goes on after the
 * last row. After an error, `cursor` says where another export can go on.
 */
export class Export implements AsyncIterable<ExportRow> {
  readonly #caller: Caller;
  readonly #query: ExportRowsQuery;
  readonly #options: RequestOptions;
  #cursor: string | undefined;
  #rows = 0;

  /** @internal */
  constructor(caller: Caller, what: ExportRowsQuery["what"], options: ExportOptions) {
    const { from, to, cursor, ...request } = options;
    // Not compressed: some runtimes take the end of a compressed body that is cut off for its end.
    const headers = { ...request.headers, "accept-encoding": "identity" };
    this.#caller = caller;
    this.#query = { what, from, to } as ExportRowsQuery;
    this.#options = { ...request, headers };
    this.#cursor = cursor;
  }

  /** The cursor of the last row that was returned. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** How many rows were returned. */
  get rows(): number {
    return this.#rows;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ExportRow, void, undefined> {
    const { config } = this.#caller;
    const retries = { ...config.retries, limit: this.#options.maxRetries ?? config.retries.limit };
    for (let attempts = 1; ; attempts += 1) {
      const before = this.#rows;
      try {
        yield* this.#read();
        return;
      } catch (caught) {
        if (!(caught instanceof StreamFailure)) throw caught;
        // Only attempts without any progress count.
        if (this.#rows > before) attempts = 1;
        const delay = retryDelay(retries, attempts, true, caught.failure, Math.random());
        if (delay === undefined || caught.aborted) throw caught.error;
        await pause(delay, this.#options.signal);
      }
    }
  }

  /** The rows of one response. */
  async *#read(): AsyncGenerator<ExportRow, void, undefined> {
    const query = { ...this.#query, format: "ndjson", cursor: this.#cursor };
    const call: Call = { method: "GET", path: ["v1", "export"], query, repeatable: true };
    const decoder = new TextDecoder();
    let rest = "";
    for await (const part of this.#caller.stream(call, this.#options)) {
      const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const row = parse(line);
        this.#cursor = row.cursor;
        this.#rows += 1;
        yield row;
      }
    }
    if (rest !== "") {
      // It was cut off after all.
      const error = new APIConnectionError("the connection ended in the middle of a row");
      throw new StreamFailure({ failure: { connected: true }, error });
    }
  }
}

function parse(line: string): ExportRow {
  try {
    const row: unknown = JSON.parse(line);
    if (typeof row === "object" && row !== null && "cursor" in row && typeof row.cursor === "string") return row as ExportRow;
  } catch {
    // Not JSON at all.
  }
  throw new UnreadableResponseError("a line of the export is no row of the service", { status: 200 });
}
