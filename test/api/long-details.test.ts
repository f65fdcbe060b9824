import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { detailsIn } from '../support/details.ts';
import { useGateway } from '../support/gateway.ts';

/** JSON text of so many UTF-16 units, with what an org or a careless cut could spoil everywhere. */
function detailsOf(length: number): string {
  const pattern = ' 🧭 漢\\"1e400 ';
  const text = `{"n":12345678901234567890.10,"t":"${pattern.repeat(Math.ceil(length / pattern.length))}`;
  return `${text.slice(0, length - 3).replace(/[\\\ud800-\udbff]$/, 'x')}_"}`;
}

for (const [collection, object] of [
  ['quotes', 'Quote__c'],
  ['bookings', 'Booking__c'],
] as const) {
  describe(`details over several fields: /v1/${collection}`, () => {
    const gateway = useGateway();

    const send = (method: string, path: string, body?: string, headers: Record<string, string> = {}) =>
      gateway.request(`/v1/${collection}${path}`, {
        method,
        ...(body !== undefined && { body }),
        headers: { 'idempotency-key': randomUUID(), ...headers },
      });
    const create = async (details: string) => {
      const trip = randomUUID();
      const values = { trip_id: trip, member_id: gateway.org.memberId, name: 'n', source: 's' };
      const body = JSON.stringify(values).replace(/}$/, `,"details":${details}}`);
      const response = await send('POST', '', body);
      const text = await response.text();
      assert.equal(response.status, 201, text.slice(0, 500));
      assert.ok(text.includes(`"details":${details},`));
      const { id } = JSON.parse(text) as { id: string };
      return { id, trip, etag: response.headers.get('etag') as string };
    };
    const inCrm = async (id: string) =>
      (await gateway.org.records(object, { External_Id__c: id }))[0] as Record<string, unknown>;
    const partsIn = (record: Record<string, unknown>) =>
      Object.keys(record).filter((name) => name.startsWith('Details') && record[name] !== null).length;

    test('are one value for POST, GET, list and entity tag', async () => {
      for (const length of [131_072, 131_073, 262_145, 600_000]) {
        const details = detailsOf(length);
        const { id, trip, etag } = await create(details);
        assert.equal(detailsIn(await inCrm(id)), details);
        const read = await send('GET', `/${id}`);
        assert.ok((await read.text()).includes(`"details":${details},`));
        assert.equal(read.headers.get('etag'), etag);
        assert.equal((await send('GET', `/${id}`, undefined, { 'if-none-match': etag })).status, 304);
        const list = await (await send('GET', `?trip_id=${trip}`)).text();
        assert.ok(list.includes(`"id":"${id}"`) && list.includes(`"details":${details},`));
      }
    });

    test('a change replaces the whole value, and empties what is left over', async () => {
      const { id, etag } = await create(detailsOf(600_000));
      const isAsWritten = async (details: string, parts: number, headers = {}) => {
        const response = await send('PATCH', `/${id}`, `{"details":${details}}`, headers);
        const text = await response.text();
        assert.equal(response.status, 200, text.slice(0, 500));
        assert.ok(text.includes(`"details":${details},`));
        const record = await inCrm(id);
        assert.equal(detailsIn(record), details);
        assert.equal(partsIn(record), parts);
        return response.headers.get('etag') as string;
      };
      const next = await isAsWritten(detailsOf(300_000), 3, { 'if-match': etag });
      assert.equal((await send('PATCH', `/${id}`, '{"details":{}}', { 'if-match': etag })).status, 412);
      await isAsWritten('{"a":1}', 1, { 'if-match': next });
      await isAsWritten(detailsOf(140_000), 2);
      const renamed = await send('PATCH', `/${id}`, '{"name":"other"}');
      assert.ok((await renamed.text()).includes(`"details":${detailsOf(140_000)},`));
    });

    test('a change whose answer is lost is found to be done, by comparison', async () => {
      const { id } = await create(detailsOf(300_000));
      for (const details of [detailsOf(400_000), '{"short":true}']) {
        const fault = await gateway.org.arm({
          match: { object, method: 'PATCH' },
          effect: { kind: 'loseAnswer' },
          times: 1,
        });
        const response = await send('PATCH', `/${id}`, `{"details":${details}}`);
        await fault.hit();
        const text = await response.text();
        assert.equal(response.status, 200, text.slice(0, 500));
        assert.ok(text.includes(`"details":${details},`));
        assert.equal(detailsIn(await inCrm(id)), details);
      }
    });

    test('a page of such records ends at 4 MiB', async () => {
      await gateway.org.clear(object);
      const ids: string[] = [];
      for (let n = 0; n < 5; n++) ids.push((await create(`{"t":"${'word '.repeat(209_000)}_"}`)).id);
      const found: string[] = [];
      let cursor = '';
      do {
        const response = await send('GET', `?limit=200${cursor}`);
        const text = await response.text();
        assert.ok(Buffer.byteLength(text) < 4 * 1024 * 1024 + 1000);
        const page = JSON.parse(text) as { data: { id: string }[]; next_cursor: string; has_more: boolean };
        found.push(...page.data.map(({ id }) => id));
        cursor = page.has_more ? `&cursor=${page.next_cursor}` : '';
      } while (cursor !== '');
      assert.deepEqual(found.toSorted(), ids.toSorted());
    });
  });
}
