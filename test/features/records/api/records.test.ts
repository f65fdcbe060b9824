import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { type RequestOptions, useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

interface RecordBody {
  id: string;
  trip_id: string;
  member_id: string;
  name: string;
  source: string;
  status: string;
  created_at: string;
  updated_at: string;
  [field: string]: unknown;
}

for (const [collection, object] of [
  ['quotes', 'Quote__c'],
  ['bookings', 'Booking__c'],
] as const) {
  describe(`/v1/${collection}`, () => {
    const gateway = useGateway();

    const body = (change: object = {}) => ({
      trip_id: randomUUID(),
      member_id: gateway.org.memberId,
      name: 'Hotel Miramar',
      source: 'hotelbeds',
      details: { net: '612.40', '2': 1, '1': 2 },
      ...change,
    });
    const send = (method: string, path: string, options: RequestOptions & { key?: string } = {}) => {
      const { key = randomUUID(), headers, ...rest } = options;
      const keyed = method === 'GET' || method === 'HEAD' ? {} : { 'idempotency-key': key };
      return gateway.request(`/v1/${collection}${path}`, {
        method,
        ...rest,
        headers: { ...keyed, ...headers },
      });
    };
    const create = async (change: object = {}) => {
      const response = await send('POST', '', { body: body(change) });
      const record = (await response.json()) as RecordBody;
      assert.equal(response.status, 201, JSON.stringify(record));
      return { record, etag: response.headers.get('etag') ?? '', location: response.headers.get('location') };
    };
    const inCrm = async (id: string) => (await gateway.org.records(object, { External_Id__c: id }))[0];

    test('creates a record and reads it back as it was created', async () => {
      const wanted = body();
      const response = await send('POST', '', { body: wanted });
      const text = await response.text();
      assert.equal(response.status, 201, text);
      const created = JSON.parse(text) as RecordBody;
      assert.deepEqual(Object.keys(created), [
        'id',
        'trip_id',
        'member_id',
        'name',
        'source',
        'details',
        'status',
        'created_by',
        'created_at',
        'updated_at',
      ]);
      const { id, status, created_by, created_at, updated_at, ...rest } = created;
      assert.deepEqual(created_by, {
        consumer_id: gateway.console.id,
        consumer_name: 'console',
        actor: null,
        verified: false,
      });
      assert.deepEqual(rest, wanted);
      assert.equal(status, 'created');
      assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/);
      assert.equal(response.headers.get('location'), `/v1/${collection}/${id}`);

      const read = await send('GET', `/${id.toUpperCase()}`);
      assert.equal(read.status, 200);
      assert.equal(read.headers.get('etag'), response.headers.get('etag'));
      assert.equal(await read.text(), text);
      assert.equal(updated_at, created_at);
    });

    test('details come back digit for digit', async () => {
      const details =
        '{"z":9007199254740993,"a":1e400,"n":0.10000000000000000001,"__proto__":[{}],"e":"👩‍🚀"}';
      const text = JSON.stringify(body({ details: 0 })).replace(
        '"details":0',
        `"details": ${details.replace(':', ' : ')}`,
      );
      const response = await send('POST', '', { body: text });
      assert.equal(response.status, 201);
      const answer = await response.text();
      assert.ok(answer.includes(`"details":${details},`), answer);
      const { id } = JSON.parse(answer) as RecordBody;
      assert.equal((await inCrm(id))?.Details__c, details);
    });

    test('changes single fields and leaves the others alone', async () => {
      const { record, etag } = await create();
      const member = (await gateway.org.records('Contact')).at(-1)?.External_Id__c as string;
      const response = await send('PATCH', `/${record.id}`, {
        body: { name: 'Casa Olivo', member_id: member, details: {} },
      });
      const changed = (await response.json()) as RecordBody;
      assert.equal(response.status, 200);
      assert.deepEqual(
        { ...changed, updated_at: '' },
        { ...record, name: 'Casa Olivo', member_id: member, details: {}, updated_at: '' },
      );
      assert.notEqual(response.headers.get('etag'), etag);
    });

    test('deletes a record, once', async () => {
      const { record } = await create();
      const headers = { 'content-type': 'text/plain' };
      const response = await send('DELETE', `/${record.id}`, { headers });
      assert.equal(response.status, 204);
      assert.equal(await response.text(), '');
      assert.equal(await inCrm(record.id), undefined);
      await assertProblem(await send('GET', `/${record.id}`), 404, 'not_found');
      await assertProblem(await send('DELETE', `/${record.id}`), 404, 'not_found');
      await assertProblem(await send('PATCH', `/${record.id}`, { body: { name: 'x' } }), 404, 'not_found');
    });

    test('every write needs a key, and is carried out once under it', async () => {
      const headers = { 'idempotency-key': '' };
      const { record } = await create();
      for (const [method, path, sent] of [
        ['POST', '', body()],
        ['PATCH', `/${record.id}`, { name: 'Once' }],
        ['DELETE', `/${record.id}`, undefined],
      ] as const) {
        const options = sent ? { body: sent } : {};
        const without = await gateway.request(`/v1/${collection}${path}`, { method, ...options });
        await assertProblem(without, 400, 'idempotency_key_missing', 'Idempotency-Key');
        await assertProblem(
          await send(method, path, { ...options, headers }),
          400,
          'idempotency_key_invalid',
          'Idempotency-Key',
        );
        const key = randomUUID();
        const first = await send(method, path, { ...options, key });
        const again = await send(method, path, { ...options, key });
        assert.equal(again.status, first.status);
        assert.equal(again.headers.get('idempotent-replayed'), 'true');
        assert.equal(await again.text(), await first.text());
        for (const name of ['etag', 'location', 'content-type']) {
          assert.equal(again.headers.get(name), first.headers.get(name), name);
        }
      }
    });

    test('one key, another path: refused', async () => {
      const [a, b] = [await create(), await create()];
      const key = randomUUID();
      assert.equal((await send('DELETE', `/${a.record.id}`, { key })).status, 204);
      await assertProblem(
        await send('DELETE', `/${b.record.id}`, { key }),
        422,
        'idempotency_key_reused',
        'Idempotency-Key',
      );
    });

    test('refuses what is not valid, naming it by the API and not by the CRM', async () => {
      await assertProblem(
        await send('POST', '', { body: {} }),
        400,
        'invalid_request',
        '#/trip_id',
        '#/member_id',
        '#/name',
        '#/source',
        '#/details',
      );
      await assertProblem(
        await send('POST', '', { body: body({ status: 'x', Name__c: 'y' }) }),
        400,
        'invalid_request',
        '#/status',
        '#/Name__c',
      );
      const { record } = await create();
      await assertProblem(await send('PATCH', `/${record.id}`, { body: {} }), 400, 'invalid_request', '#');
      await assertProblem(
        await send('PATCH', `/${record.id}`, { body: { name: null } }),
        400,
        'invalid_request',
        '#/name',
      );
      await assertProblem(await send('GET', '/not-a-uuid'), 400, 'invalid_request', 'id');
      await assertProblem(
        await send('POST', '', { body: body({ member_id: randomUUID() }) }),
        422,
        'member_not_found',
        '#/member_id',
      );
      await assertProblem(
        await send('PATCH', `/${record.id}`, { body: { member_id: randomUUID() } }),
        422,
        'member_not_found',
        '#/member_id',
      );
      await assertProblem(
        await send('DELETE', `/${record.id}`, { body: { force: true } }),
        400,
        'invalid_request',
        '#/force',
      );
      await assertProblem(await send('DELETE', `/${randomUUID()}`, { body: {} }), 404, 'not_found');
      const rejected = await gateway.org.arm({
        match: { object, method: 'POST' },
        effect: {
          kind: 'recordError',
          errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION',
          message: 'Trip_Id__c is closed',
        },
        times: 1,
      });
      const problem = await assertProblem(await send('POST', '', { body: body() }), 422, 'crm_rejected', '');
      assert.doesNotMatch(JSON.stringify(problem), /__c/);
      await rejected.remove();
    });

    test('conditional requests: 304 for what is known, 412 for what has changed', async () => {
      const { record, etag } = await create();
      const notModified = await send('GET', `/${record.id}`, {
        headers: { 'if-none-match': `W/"x", ${etag}` },
      });
      assert.equal(notModified.status, 304);
      assert.equal(notModified.headers.get('etag'), etag);
      assert.equal(await notModified.text(), '');
      assert.equal(
        (await send('GET', `/${record.id}`, { headers: { 'if-none-match': '"other"' } })).status,
        200,
      );

      const key = randomUUID();
      const change = { key, body: { name: 'Second' }, headers: { 'if-match': etag } };
      const changed = await send('PATCH', `/${record.id}`, change);
      assert.equal(changed.status, 200);
      const replay = await send('PATCH', `/${record.id}`, change);
      assert.equal(replay.headers.get('idempotent-replayed'), 'true');
      await assertProblem(
        await send('PATCH', `/${record.id}`, { ...change, key: randomUUID() }),
        412,
        'precondition_failed',
      );
      await assertProblem(
        await send('DELETE', `/${record.id}`, { headers: { 'if-match': etag } }),
        412,
        'precondition_failed',
      );
      const now = changed.headers.get('etag') ?? '';
      await assertProblem(
        await send('DELETE', `/${record.id}`, { headers: { 'if-match': `W/${now}` } }),
        412,
        'precondition_failed',
      );
      assert.equal((await send('DELETE', `/${record.id}`, { headers: { 'if-match': now } })).status, 204);
    });

    test('a tag is good for one change, also where the record gets its old values again at once', async () => {
      const { record, etag } = await create({ name: 'X' });
      const change = async (name: string, tag: string) => {
        const answer = await send('PATCH', `/${record.id}`, { body: { name }, headers: { 'if-match': tag } });
        await answer.arrayBuffer();
        return { status: answer.status, tag: answer.headers.get('etag') ?? '' };
      };
      const there = await change('Y', etag);
      const back = await change('X', there.tag);
      assert.deepEqual([there.status, back.status], [200, 200]);
      assert.notEqual(back.tag, etag);
      assert.equal((await change('Z', etag)).status, 412);
    });

    test('HEAD answers like GET without a body', async () => {
      const { record, etag } = await create();
      const head = await send('HEAD', `/${record.id}`);
      assert.equal(head.status, 200);
      assert.equal(head.headers.get('etag'), etag);
      assert.equal(await head.text(), '');
    });

    test('lists newest first, filtered, page by page', async () => {
      await gateway.org.clear(object);
      const trip = randomUUID();
      for (let i = 0; i < 5; i++) await create(i % 2 === 0 ? { trip_id: trip } : {});
      const all: RecordBody[] = [];
      let cursor: string | null = '';
      do {
        const query: string = cursor ? `&cursor=${cursor}` : '';
        const response = await send('GET', `?limit=2&trip_id=${trip.toUpperCase()}${query}`);
        const page = (await response.json()) as {
          data: RecordBody[];
          next_cursor: string | null;
          has_more: boolean;
        };
        assert.equal(response.status, 200, JSON.stringify(page));
        assert.equal(page.has_more, page.next_cursor !== null);
        all.push(...page.data);
        cursor = page.next_cursor;
      } while (cursor);
      assert.equal(all.length, 3);
      assert.equal(new Set(all.map(({ id }) => id)).size, 3);
      assert.ok(all.every(({ trip_id }) => trip_id === trip));
      const order = all.map(({ created_at, id }) => `${created_at} ${id}`);
      assert.deepEqual(order, order.toSorted().reverse());
    });

    test('a cursor is good for its own list and filters only, and can not be changed', async () => {
      const [a, b] = [await create(), await create()];
      const page = (await (await send('GET', '?limit=1&status=created')).json()) as { next_cursor: string };
      assert.equal((await send('GET', `?status=created&cursor=${page.next_cursor}`)).status, 200);
      const forged = page.next_cursor.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
      const other = collection === 'quotes' ? 'bookings' : 'quotes';
      for (const path of [
        `/v1/${collection}?cursor=${page.next_cursor}`,
        `/v1/${collection}?status=created&trip_id=${a.record.trip_id}&cursor=${page.next_cursor}`,
        `/v1/${other}?status=created&cursor=${page.next_cursor}`,
        `/v1/${collection}?status=created&cursor=${forged}`,
        `/v1/${collection}?status=created&cursor=%00`,
        `/v1/${collection}?status=created&cursor=${'A'.repeat(300)}`,
        `/v1/${collection}?status=created&cursor=${'A'.repeat(600)}`,
        `/v1/${collection}?status=created&cursor=`,
      ]) {
        await assertProblem(await gateway.request(path), 400, 'invalid_cursor', 'cursor');
      }
      assert.ok(!Buffer.from(page.next_cursor, 'base64url').toString('latin1').includes(b.record.id));
    });

    test('refuses query parameters that it does not know or that are out of range', async () => {
      for (const [query, parameter] of [
        ['limit=0', 'limit'],
        ['limit=201', 'limit'],
        ['limit=1e2', 'limit'],
        ['limit=', 'limit'],
        ['limit=1&limit=2', 'limit'],
        ['trip_id=x', 'trip_id'],
        ['offset=1', 'offset'],
        ['email=a', 'email'],
      ] as const) {
        await assertProblem(await send('GET', `?${query}`), 400, 'invalid_request', parameter);
      }
    });

    test('a filter can not become part of a query', async () => {
      for (const status of ["x' OR Name__c != '", "\\' OR 1=1", '%', "created'"]) {
        const response = await send('GET', `?status=${encodeURIComponent(status)}`);
        assert.equal(response.status, 200);
        assert.deepEqual(((await response.json()) as { data: unknown[] }).data, []);
      }
    });

    test('records without a UUID as External ID do not exist, and unreadable content is null', async () => {
      await gateway.org.clear(object);
      const id = randomUUID();
      const raw = { Name__c: 'a', Source__c: 'b' };
      await gateway.org.insert(object, [
        { ...raw, External_Id__c: 'legacy-1' },
        { ...raw },
        { ...raw, External_Id__c: id, Details__c: 'no json', Trip_Id__c: 'trip' },
      ]);
      const { data } = (await (await send('GET', '')).json()) as { data: RecordBody[] };
      assert.equal(data.length, 1);
      assert.partialDeepStrictEqual(data[0], {
        id,
        details: null,
        trip_id: null,
        member_id: null,
        name: 'a',
      });
    });
  });
}
