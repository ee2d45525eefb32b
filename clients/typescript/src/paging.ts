// Lists: iterators that fetch page after page.

type Query = Record<string, unknown>;

/**
 * A list. `for await` yields items and fetches pages as they are needed; each iteration starts anew.
 */
export class Pager<Page extends object, Item> implements AsyncIterable<Item> {
  readonly #fetch: (query: object) => Promise<Page>;
  readonly #query: Query;
  readonly #items: string;

  /** @internal */
  constructor(fetch: (query: object) => Promise<Page>, query: object, items: string) {
    this.#fetch = fetch;
    this.#query = { ...query };
    this.#items = items;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) yield* this.#itemsOf(page);
  }

  /** Iterates over the pages. */
  async *pages(): AsyncGenerator<Page, void, undefined> {
    let query: Query | undefined = this.#query;
    while (query !== undefined) {
      const page: Page = await this.#fetch(query);
      yield page;
      query = this.#after(query, page);
    }
  }

  /** Fetches the first page only. */
  page(): Promise<Page> {
    return this.#fetch(this.#query);
  }

  /** Fetches everything. */
  async toArray(): Promise<Item[]> {
    const items: Item[] = [];
    for await (const item of this) items.push(item);
    return items;
  }

  #itemsOf(page: Page): Item[] {
    return ((page as Query)[this.#items] as Item[] | undefined) ?? [];
  }

  #after(query: Query, page: Page): Query | undefined {
    const { next_cursor: cursor, limit, offset } = page as Query;
    if (cursor) return { ...query, cursor };
    // A search by answers pages by offset. A list that pages by cursor ends with the page that has none.
    const count = this.#itemsOf(page).length;
    if (!query.cursor && typeof limit === "number" && typeof offset === "number" && limit > 0 && count >= limit) {
      return { ...query, offset: offset + count };
    }
    return undefined;
  }
}
