import type { Reply } from './reply.ts';
import { type Query, type RecordReadOptions, readHeaders, type Transport } from './transport.ts';

/** What a list answers: one page of it. */
export interface Page<Item> {
  data: Item[];
  /** Where the next page begins; null on the last one. `events` gives one on the last page too, to go on from later. */
  next_cursor: string | null;
  has_more: boolean;
}

/** All items of a list, page by page as they are asked for: `for await (const quote of client.quotes.list())`. */
export interface List<Item> extends AsyncIterable<Item> {
  /** One page: the first one, or the one after `cursor`. */
  page(): Reply<Page<Item>>;
}

export function listOf<Item>(
  transport: Transport,
  path: string,
  query: Query | undefined,
  options: RecordReadOptions = {},
): List<Item> {
  const page = (cursor: string | null = null) =>
    transport.send<Page<Item>>({
      method: 'GET',
      path,
      query: cursor === null ? query : { ...query, cursor },
      signal: options.signal,
      headers: readHeaders(options),
    });
  return {
    page: () => page(),
    async *[Symbol.asyncIterator]() {
      let cursor: string | null = null;
      do {
        const { data, has_more, next_cursor }: Page<Item> = await page(cursor);
        yield* data;
        cursor = has_more ? next_cursor : null;
      } while (cursor !== null);
    },
  };
}
