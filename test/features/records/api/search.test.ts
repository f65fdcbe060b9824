import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { eventually } from '../../../support/eventually.ts';
import { FeedReader } from '../../../support/feed.ts';
import { type Credentials, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

interface Shown {
  id: string;
  name: string;
  source: string;
  first_name: string | null;
  last_name: string | null;
  email: string | null;
  phone: string | null;
}

let gateway: TestGateway;
before(async () => {
  gateway = await startGateway({
    ...{ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' },
    ...{ COPY_ENABLED: 'true', COPY_DEFAULT_MAX_AGE_SECONDS: '60' },
  });
});
after(() => gateway.stop());

const get = (path: string, from: 'CRM' | 'copy', as?: Credentials) =>
  gateway.request(path, {
    ...(as && { as }),
    headers: from === 'CRM' ? { 'cache-control': 'no-cache' } : {},
  });

async function list(path: string, from: 'CRM' | 'copy'): Promise<Shown[]> {
  const response = await get(path, from);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  assert.equal(response.headers.has('age'), from === 'copy', `${path} of the ${from}`);
  return (JSON.parse(text) as { data: Shown[] }).data;
}

async function create(name: string, source = 'supplier'): Promise<string> {
  const member_id = gateway.org.memberId;
  const response = await gateway.request('/v1/quotes', {
    body: { trip_id: randomUUID(), member_id, name, source, details: {} },
    headers: { 'idempotency-key': randomUUID() },
  });
  const text = await response.text();
  assert.equal(response.status, 201, text);
  return (JSON.parse(text) as Shown).id;
}

/** Resolves once the copy answers reads. */
async function untilCopied(path: string): Promise<void> {
  await eventually(async () => assert.ok((await get(path, 'copy')).headers.has('age')));
}

describe('the search of a list', () => {
  test('finds a part of any text in either case, wildcards as themselves, by CRM and copy alike', async () => {
    const names = [
      ...[
        'Hotel Rosa del Mar',
        'HOTEL ROMA',
        '100% linen',
        '100 linen',
        'a_b',
        'axb',
        'c\\d',
        'O\'Hara "suite"',
      ],
      ...['Málaga über', 'two  spaces', 'tab\tin it'],
    ];
    const ids = new Map<string, string>();
    for (const name of names) ids.set(await create(name, name === 'axb' ? 'rosa & co' : 'other'), name);
    const last = [...ids.keys()].at(-1);
    const feed = new FeedReader(gateway.request);
    await feed.until(({ resource }) => resource.id === last);
    await untilCopied('/v1/quotes');
    const parts = names.flatMap((name) => [name, name.toUpperCase(), name.slice(1, 4), name.slice(-3)]);
    const wanted = [...parts, 'rosa', 'ros_', '%o%', '\\', '0%', 'zz', 'l R'].filter(
      (text) => text.trim().length > 1,
    );
    for (const text of wanted) {
      const found = [...ids].filter(([, name]) =>
        [name, name === 'axb' ? 'rosa & co' : 'other'].some((held) =>
          held.toLowerCase().includes(text.trim().toLowerCase()),
        ),
      );
      for (const from of ['CRM', 'copy'] as const) {
        const shown = await list(`/v1/quotes?limit=200&q=${encodeURIComponent(text)}`, from);
        assert.deepEqual(
          new Set(shown.map(({ id }) => ids.get(id))),
          new Set(found.map(([, name]) => name)),
          `${text} in the ${from}`,
        );
      }
    }
  });

  test('finds members by names, the space between them included, address and telephone', async () => {
    await untilCopied('/v1/members');
    const all = await list('/v1/members?limit=200', 'CRM');
    const texts = (one: Shown) => [
      [one.first_name, one.last_name].filter((name) => name !== null).join(' '),
      one.email ?? '',
      one.phone ?? '',
    ];
    const part = fc
      .tuple(fc.constantFrom(...all.flatMap(texts).filter((text) => text.length > 3)), fc.nat(), fc.nat())
      .map(([text, from, length]) => {
        const start = from % (text.length - 2);
        return text.slice(start, start + 2 + (length % 12)).trim();
      })
      .filter((text) => text.length > 1);
    const joined = texts(all[0] as Shown)[0] as string;
    const between = joined.slice(joined.indexOf(' ') - 2, joined.indexOf(' ') + 3);
    for (const text of [between, ...fc.sample(part, 40)]) {
      const found = all.filter((one) =>
        texts(one).some((held) => held.toLowerCase().includes(text.toLowerCase())),
      );
      assert.ok(found.length > 0);
      for (const from of ['CRM', 'copy'] as const) {
        const shown = await list(`/v1/members?limit=200&q=${encodeURIComponent(text)}`, from);
        assert.deepEqual(
          shown.map(({ id }) => id),
          found.map(({ id }) => id),
          `${text} in the ${from}`,
        );
      }
    }
  });

  test('goes on from page to page with the same text, and with no other', async () => {
    const mark = randomUUID().slice(0, 8);
    const made = new Set<string>();
    for (const n of [1, 2, 3]) made.add(await create(`page ${mark} ${n}`));
    const first = (await (await get(`/v1/quotes?limit=2&q=${mark}`, 'CRM')).json()) as {
      data: Shown[];
      next_cursor: string;
    };
    const rest = await list(`/v1/quotes?limit=2&q=${mark}&cursor=${first.next_cursor}`, 'CRM');
    assert.deepEqual(new Set([...first.data, ...rest].map(({ id }) => id)), made);
    const other = await get(`/v1/quotes?limit=2&q=other&cursor=${first.next_cursor}`, 'CRM');
    await assertProblem(other, 400, 'invalid_cursor', 'cursor');
  });

  test('refuses texts that are too short or long, and fields that the caller does not see', async () => {
    for (const text of ['a', ' a ', '   ', 'x'.repeat(101), 'a\0b'])
      await assertProblem(
        await get(`/v1/bookings?q=${encodeURIComponent(text)}`, 'CRM'),
        400,
        'invalid_request',
        'q',
      );
    for (const [text, message] of [
      ['a', 'must have at least 2 characters'],
      ['%20a%20', 'must have at least 2 characters, without leading and trailing white space'],
    ] as const) {
      const { errors } = (await (await get(`/v1/quotes?q=${text}`, 'CRM')).json()) as { errors: object[] };
      assert.deepEqual(errors, [{ parameter: 'q', message }]);
    }
    const as = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read'],
      fields: ['name', 'status'],
    });
    const { required } = await assertProblem(
      await get('/v1/quotes?q=hotel', 'copy', as),
      403,
      'permission_denied',
    );
    assert.deepEqual(required, { resource: 'quotes', action: 'read', field: 'source' });
  });
});
