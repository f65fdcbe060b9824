import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, mock, test } from 'node:test';
import type { HandoffRequest } from '../../../src/features/handoff/handoff.ts';
import { checkRoutes } from '../../../src/features/trips/routes/check.ts';
import { handOffTripRoute } from '../../../src/features/trips/routes/hand-off-trip.ts';
import { resourcesOf } from '../../../src/records/mapping.ts';

/** Enough to read a trip, and to check one that names neither its trip nor its member. */
const parts = { resources: resourcesOf() } as Parameters<typeof checkRoutes>[0];
const [, checkRoute] = checkRoutes(parts);

/** The items of a trip with these details, as JSON. */
const itemsOf = (details: readonly string[], type = 'quote') =>
  `"items":[${details.map((text) => `{"type":"${type}","result":{"name":"a","source":"b","details":${text}}}`).join()}]`;

const handOff = (items: string) => {
  const bodyText = `{"trip_id":"${randomUUID()}","member_id":"${randomUUID()}",${items}}`;
  return handOffTripRoute(parts).prepare?.(JSON.parse(bodyText) as never, bodyText) as HandoffRequest[];
};

const check = async (items: string) => {
  const bodyText = `{${items}}`;
  const input = {
    body: JSON.parse(bodyText) as unknown,
    bodyText,
    faults: [],
    call: { consumerId: 'con_x' },
  };
  const { body } = (await checkRoute?.handle(input as never)) ?? {};
  return JSON.parse(String(body)) as { problems: { errors: { pointer: string }[] }[] };
};

/** How often `work` looks at a character of a text. */
async function looksOf(work: () => unknown): Promise<number> {
  const { mock: looks } = mock.method(String.prototype, 'charCodeAt');
  try {
    await work();
    return looks.callCount();
  } finally {
    looks.restore();
  }
}

describe('the items of a trip', () => {
  test('are read in a few passes over the body, however many they are', async () => {
    const large = `{"a":[${Array.from({ length: 2000 }, () => '1').join()}]}`;
    const many = [large, ...Array.from({ length: 24 }, () => '{"a":1}')];
    for (const [what, work, items] of [
      ['a hand-off', handOff, itemsOf(many)],
      ['a check', check, itemsOf(many)],
      ['a check of an unknown type', check, itemsOf(many, 'quot')],
    ] as const) {
      const passes = (await looksOf(() => work(items))) / items.length;
      assert.ok(passes < 10, `${what} looks at each character ${passes} times`);
    }
  });

  test('keep their details as they were sent, wherever the body has other items', () => {
    const decoys = `"x":{${itemsOf(['{"wrong":1}'])}},${itemsOf(['{"wrong":2}'])}`;
    const details = ['{"é":1e400,"n":-0,"n":1.10}', '{ "items" :\n[ { "result":{"details":{}} } ] }'];
    const items = itemsOf(details).replace('items', '\\u0069t\\u0065ms').replaceAll(':', ' :\t');
    assert.deepEqual(
      handOff(`${decoys}, ${items}`).map(({ result }) => result.details),
      ['{"é":1e400,"n":-0,"n":1.10}', '{"items":[{"result":{"details":{}}}]}'],
    );
  });

  test('are named where their details nest too deep', async () => {
    const deep = `${'{"a":'.repeat(101)}1${'}'.repeat(101)}`;
    const errors = [
      { pointer: '#/items/1/result/details', message: 'nest 101 levels deep; at most 100 are allowed' },
    ];
    assert.throws(() => handOff(itemsOf(['{}', deep])), { facts: { errors } });
    for (const type of ['quote', 'quot']) {
      const { problems } = await check(itemsOf(['{}', deep], type));
      assert.deepEqual(
        problems.map((problem) => problem.errors),
        [errors],
      );
    }
  });
});
