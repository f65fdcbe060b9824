import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertFitsDocument } from './document-check.ts';

const path = '/v1/members?limit=1';
const member = {
  id: '3b241101-e2bb-4255-8caf-4136c566a962',
  first_name: 'Ada',
  last_name: null,
  email: 'ada@example.org',
  phone: null,
  created_at: '2027-03-02T16:05:12.000Z',
  updated_at: '2027-03-02T16:05:12.000Z',
};
const page = { data: [member], next_cursor: null, has_more: false };
const headers = {
  'content-type': 'application/json; charset=utf-8',
  'x-request-id': 'a',
  'cache-control': 'no-store',
};

describe('the check against the document', () => {
  const check = (body: unknown, more: { status?: number; headers?: object; path?: string } = {}) =>
    assertFitsDocument(
      more.path ?? path,
      {},
      new Response(JSON.stringify(body), {
        status: more.status ?? 200,
        headers: { ...headers, ...more.headers },
      }),
    );

  test('passes an answer that fits', () => check(page));

  const faults: [string, () => Promise<void>, RegExp][] = [
    ['an undeclared status', () => check(page, { status: 203 }), /status 203/],
    ['an undeclared path', () => check(page, { path: '/v1/other' }), /status 200/],
    ['an undeclared header', () => check(page, { headers: { 'x-other': 'a' } }), /header x-other/],
    ['a header of another form', () => check(page, { headers: { 'x-request-id': 'a b' } }), /pattern/],
    [
      'an undeclared content type',
      () => check(page, { headers: { 'content-type': 'text/plain' } }),
      /content type/,
    ],
    ['an undeclared field', () => check({ ...page, total: 1 }), /additional/],
    ['an undeclared field of an item', () => check({ ...page, data: [{ ...member, age: 1 }] }), /additional/],
    ['a missing field', () => check({ data: [], has_more: false }), /next_cursor/],
    ['a field of another type', () => check({ ...page, has_more: 'no' }), /boolean/],
    ['a value of another format', () => check({ ...page, data: [{ ...member, id: '1' }] }), /uuid/],
    [
      'an accepted parameter that is not declared',
      () => check(page, { path: `${path}&colour=red` }),
      /query colour/,
    ],
    [
      'an accepted parameter out of bounds',
      () => check(page, { path: '/v1/members?limit=201' }),
      /query limit/,
    ],
  ];
  for (const [what, run, message] of faults) test(`refuses ${what}`, () => assert.rejects(run, message));
});
