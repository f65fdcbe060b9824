import { setTimeout as sleep } from 'node:timers/promises';
import type { RequestOptions } from './gateway.ts';

export interface FeedEvent {
  id: string;
  type: string;
  occurred_at: string;
  resource: { type: string; id: string };
  data: Record<string, unknown>;
  data_omitted?: boolean;
}

export interface FeedPage {
  data: FeedEvent[];
  next_cursor: string;
  has_more: boolean;
}

/** A reader of the feed that keeps its cursor. */
export class FeedReader {
  readonly #request: (path: string) => Promise<Response>;
  readonly #query: string;
  #cursor = '';
  /** All that it has read so far. */
  readonly events: FeedEvent[] = [];

  constructor(
    request: (path: string, options?: RequestOptions) => Promise<Response>,
    { query = '', as }: { query?: string; as?: RequestOptions['as'] } = {},
  ) {
    this.#request = (path) => request(path, as === undefined ? {} : { as });
    this.#query = query;
  }

  /** Reads to the end, and returns what is new. */
  async next(): Promise<FeedEvent[]> {
    const found: FeedEvent[] = [];
    for (let hasMore = true; hasMore; ) {
      const cursor = this.#cursor && `&cursor=${this.#cursor}`;
      const response = await this.#request(`/v1/events?limit=200&${this.#query}${cursor}`);
      if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
      const page = (await response.json()) as FeedPage;
      found.push(...page.data);
      this.#cursor = page.next_cursor;
      hasMore = page.has_more;
    }
    this.events.push(...found);
    return found;
  }

  /** Reads on until there is an event like this, counting those that were read already. */
  async until(isWanted: (event: FeedEvent) => boolean, ms = 60_000): Promise<FeedEvent> {
    for (const end = performance.now() + ms; performance.now() < end; await sleep(50)) {
      const found = this.events.find(isWanted);
      if (found) return found;
      await this.next();
    }
    throw new Error(`no such event came; there are ${JSON.stringify(this.events).slice(0, 2000)}`);
  }

  /** Types of the events of one resource, in their order. */
  typesOf(id: string): string[] {
    return this.events.filter(({ resource }) => resource.id === id).map(({ type }) => type);
  }
}
