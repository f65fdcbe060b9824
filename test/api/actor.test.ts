import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parseActor } from '../../src/api/pipeline/request-head.ts';
import { visibleRecords } from '../../src/identity/consumers/permissions.ts';
import { Problem } from '../../src/platform/base/problem.ts';

describe('X-Actor', () => {
  test('is what was percent-encoded, whatever it was', () => {
    const printable = fc
      .stringMatching(/^[\p{L}\p{N}\p{P}\p{S} ]{1,255}$/u)
      .filter((text) => /\S/.test(text));
    fc.assert(fc.property(printable, (text) => parseActor(encodeURIComponent(text)) === text));
    assert.equal(parseActor('marta.ruiz+vip@example.com'), 'marta.ruiz+vip@example.com');
    assert.equal(parseActor('In%C3%A9s 100%25'), 'Inés 100%');
  });

  test('counts characters after decoding', () => {
    assert.equal(parseActor('%F0%9F%98%80'.repeat(255)).length, 510);
    assert.throws(() => parseActor('%C3%A9'.repeat(256)), Problem);
  });

  for (const header of [
    '',
    ' ',
    '%20',
    '100%',
    '%zz',
    '%C3',
    '%FF',
    'In\u00e9s',
    'a%00b',
    'a%0Ab',
    '%E2%80%AEx',
  ])
    test(`refuses ${JSON.stringify(header)}`, () => {
      assert.throws(() => parseActor(header), { name: 'Problem', code: 'invalid_request' });
    });
});

test('a consumer sees all records of a resource, or its own', () => {
  const quotes = { resource: 'quotes', records: 'own' } as const;
  const bookings = { resource: 'bookings' };
  const consumer = {
    id: 'con_1',
    permissions: [quotes, bookings, { resource: 'members', records: 'all' }],
  } as const;
  assert.deepEqual(visibleRecords(consumer, 'quotes'), { consumerId: 'con_1' });
  for (const resource of ['bookings', 'members', 'consumers'])
    assert.equal(visibleRecords(consumer, resource), 'all');
});
