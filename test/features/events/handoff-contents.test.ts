import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EventFeed, StoredEvent } from '../../../src/features/events/event-feed.ts';
import { contentsOf } from '../../../src/features/events/handoff-contents.ts';
import type { Consumer } from '../../../src/identity/consumers/consumer.ts';

describe('what is beside an event of a hand-off', () => {
  const cases: [
    what: string,
    type: string,
    held: string | undefined,
    made: string | undefined,
    string | null,
  ][] = [
    ['waits', 'handoff.awaiting_approval', 'held', undefined, 'held'],
    ['is made by now', 'handoff.awaiting_approval', undefined, 'made', 'made'],
    ['waits for other content, after it was made', 'handoff.awaiting_approval', 'held', 'made', 'held'],
    ['was made', 'handoff.created', undefined, 'made', 'made'],
    ['was made, and waits again with other content', 'handoff.created', 'held', 'made', 'made'],
    ['was made and deleted, and waits again', 'handoff.created', 'held', undefined, null],
  ];
  const contents = (text: string | undefined) => new Map(text === undefined ? [] : [['id', text]]);
  for (const [what, type, held, made, expected] of cases)
    test(`that ${what}: ${expected}`, async () => {
      const event = { type, resource_type: 'handoff', resource_id: 'id' } as StoredEvent;
      const contentOf = await contentsOf([event], {} as Consumer, {
        feed: { newestRecords: async () => contents(made) } as unknown as EventFeed,
        findHeld: async () => contents(held),
      });
      assert.equal(contentOf(event), expected);
    });
});
