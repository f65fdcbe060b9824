import { setTimeout as sleep } from 'node:timers/promises';
import { type FeedEvent, FeedReader } from '../../../support/feed.ts';
import type { Answer, Model } from './model.ts';
import type { Kind } from './org-history.ts';

const longestMs = 90_000;

/**
 * When nothing happens any more, and all known ids were compared with those of the org: the copy and the CRM show the same
 * of every record, and the feed leads to it. Returns what differs; nothing where all is well.
 */
export async function differencesAtEnd(
  model: Model,
  compare: () => Promise<unknown>,
): Promise<readonly string[]> {
  await model.cluster.org.disarm();
  await compare();
  const end = performance.now() + longestMs;
  const feed = new FeedReader(async (path) => {
    for (;;) {
      const { status, text } = await model.send('GET', path);
      // A gateway whose database was unavailable refuses for a moment.
      if (status !== 503 || performance.now() > end) return new Response(text, { status });
      await sleep(100);
    }
  });
  model.history.look();
  for (; ; await sleep(500)) {
    await feed.next();
    const differences = [];
    // Of the member that was there before the first start there are no events.
    for (const kind of ['quote', 'member'] as const)
      for (const id of model.history.ids(kind))
        if (id !== model.cluster.org.memberId)
          differences.push(...(await differencesOf(model, kind, id, feed.events)));
    if (differences.length === 0 || performance.now() > end) return differences;
  }
}

async function differencesOf(
  model: Model,
  kind: Kind,
  id: string,
  events: readonly FeedEvent[],
): Promise<string[]> {
  const read = (cacheControl: string) =>
    model.send('GET', `/v1/${kind}s/${id}`, { headers: { 'cache-control': cacheControl } });
  const [crm, copy] = [await read('no-cache'), await read('max-age=3600')];
  const differences = differencesIn(copy, crm).map((wrong) => `${kind} ${id}: ${wrong}`);
  const last = events.findLast(({ resource }) => resource.id === id);
  const published = last === undefined || last.type.endsWith('.deleted') ? null : factsOf(last.data);
  const shown = crm.status === 404 ? null : factsOf(JSON.parse(crm.text) as object);
  if (published !== shown) differences.push(`${kind} ${id}: ${last?.type} ${published} but is ${shown}`);
  return differences;
}

function differencesIn(copy: Answer, crm: Answer): string[] {
  const isSame = crm.status === copy.status && (crm.status === 404 || crm.text === copy.text);
  if (!isSame) return [`${copy.status} ${copy.text} but ${crm.status} ${crm.text}`];
  // What is asked of the CRM says nothing of the copy.
  return copy.status === 200 && copy.headers.get('age') === null ? ['it is stale'] : [];
}

/** What of a record makes an event when it changes. */
function factsOf(record: object): string {
  const { updated_at: _time, member_id: _member, ...facts } = record as Record<string, unknown>;
  return JSON.stringify(facts);
}
