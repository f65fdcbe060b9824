import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';

/** Most bytes of the quotes of an answer, and of its bookings. */
const mostBytes = 4 * 1024 * 1024;
/** Characters of a column of details. */
const length = 131_072;

describe('a trip of quotes that have 11 MB of details together', () => {
  const gateway = useGateway();
  const trip_id = randomUUID();
  const item = (reference: string, change: object = {}) => ({
    type: 'quote',
    reference,
    result: { name: reference, source: 'hotelbeds', details: {} },
    ...change,
  });
  const items = Array.from({ length: 12 }, (_, index) => item(`r${index}`, { on_repeat: 'return' }));
  const handOff = async (sent: object[]) => {
    const body = { trip_id, member_id: gateway.org.memberId, items: sent };
    const response = await gateway.request('/api/v1/handoffs', { body });
    const text = await response.text();
    assert.ok(response.ok, text);
    const answer = JSON.parse(text) as { items: { status: string }[] };
    return answer.items.map(({ status }) => status);
  };
  const read = async () => {
    const response = await gateway.request(`/v1/trips/${trip_id}`);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as { quotes: object[]; bookings: object[]; truncated: boolean };
  };

  before(async () => {
    await handOff([...items, item('b', { type: 'booking' })]);
    const text = JSON.stringify({ text: 'x'.repeat(7 * length - '{"text":""}'.length) });
    const columns = ['Details__c', ...[2, 3, 4, 5, 6, 7].map((part) => `Details_${part}__c`)];
    const details = Object.fromEntries(
      columns.map((column, part) => [column, text.slice(part * length, (part + 1) * length)]),
    );
    await gateway.org.edit('Quote__c', { Trip_Id__c: trip_id }, details);
  });

  test('is shown up to its bytes, with its bookings', async () => {
    const { quotes, bookings, truncated } = await read();
    const bytes = Buffer.byteLength(JSON.stringify(quotes));
    assert.ok(bytes <= mostBytes && bytes > mostBytes - 8 * length, String(bytes));
    assert.deepEqual([quotes.length, bookings.length, truncated], [4, 1, true]);
  });

  test('is found again', async () => {
    assert.deepEqual(
      await handOff(items),
      items.map(() => 'existing'),
    );
  });
});
