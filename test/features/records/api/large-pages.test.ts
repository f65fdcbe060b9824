import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { useGateway } from '../../../support/gateway.ts';

interface Page {
  data: { id: string; details: { text: string } | null }[];
  next_cursor: string | null;
  has_more: boolean;
}

const mostBytes = 4 * 1024 * 1024;
/** Characters that the CRM's field holds, less what stands around the text. */
const longest = 131_072 - '{"text":""}'.length;
/** Characters of one, two, three and four bytes, and two that are escaped. */
const alphabet = ['a', 'é', '漢', '🧭', '\\"', '\\\\'];

describe('pages of large records', () => {
  const gateway = useGateway();
  beforeEach(() => gateway.org.clear('Quote__c'));

  /** Quotes with details of these lengths, in UTF-16 units; the first is the newest. */
  const insert = async (sizes: readonly number[], character = 'a'): Promise<string[]> => {
    const rows = sizes.map((size, index) => ({
      External_Id__c: randomUUID(),
      Name__c: 'n',
      Source__c: 's',
      Details__c: JSON.stringify({ text: '' }).replace(
        '""',
        `"${character.repeat(Math.floor(size / character.length))}"`,
      ),
      // Some share their second.
      CreatedDate: new Date(Date.UTC(2026, 0, 1) - Math.floor(index / 3) * 1000).toISOString(),
    }));
    for (let at = 0; at < rows.length; at += 20)
      await gateway.org.insert('Quote__c', rows.slice(at, at + 20));
    return rows.map(({ External_Id__c: id }) => id);
  };

  const read = async (query: string) => {
    const response = await gateway.request(`/v1/quotes?${query}`);
    assert.equal(response.status, 200);
    const text = await response.text();
    const page = JSON.parse(text) as Page;
    // As they stood there: nothing of these records is written otherwise by JSON.stringify.
    const sizes = page.data.map((record) => Buffer.byteLength(JSON.stringify(record)));
    return { page, sizes, bytes: sizes.reduce((sum, size) => sum + size, 0) };
  };

  const walk = async (limit: number) => {
    const pages: Awaited<ReturnType<typeof read>>[] = [];
    let cursor = '';
    do {
      pages.push(await read(`limit=${limit}${cursor}`));
      cursor = `&cursor=${pages.at(-1)?.page.next_cursor}`;
    } while (pages.at(-1)?.page.has_more);
    return pages;
  };

  const queries = async () =>
    ((await gateway.org.counters()) as { calls: { query?: number } }).calls.query ?? 0;

  test('end at 4 MiB, and no record is missed or repeated', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.constant(longest), fc.nat(longest)), { minLength: 20, maxLength: 60 }),
        fc.constantFrom(...alphabet),
        fc.constantFrom(20, 200),
        async (sizes, character, limit) => {
          await gateway.org.clear('Quote__c');
          const ids = await insert(sizes, character);
          const pages = await walk(limit);
          const found = pages.flatMap(({ page }) => page.data.map(({ id }) => id));
          assert.equal(new Set(found).size, found.length, 'a record came twice');
          assert.deepEqual(found.toSorted(), ids.toSorted());
          for (const [index, { page, bytes }] of pages.entries()) {
            const next = pages[index + 1];
            assert.equal(page.has_more, next !== undefined);
            assert.equal(page.next_cursor !== null, page.has_more);
            assert.ok(bytes <= mostBytes);
            // It is full, by one measure or the other.
            const isFull = page.data.length === limit || bytes + (next?.sizes[0] ?? 0) > mostBytes;
            assert.ok(next === undefined || isFull, 'a page ends too early');
          }
        },
      ),
      { numRuns: 4 },
    );
  });

  test('cost one call, as small ones do', async () => {
    await insert(Array.from({ length: 60 }, () => longest));
    const start = await queries();
    const { page } = await read('limit=200');
    assert.equal(page.data.length, 31);
    assert.equal(page.has_more, true);
    assert.equal((await queries()) - start, 1);
    await gateway.org.clear('Quote__c');
    await insert(Array.from({ length: 200 }, () => 1000));
    const small = await read('limit=200');
    assert.equal(small.page.data.length, 200);
    assert.equal(small.page.has_more, false);
    assert.equal((await queries()) - start, 2);
  });

  test('wait for each other, and all come; so does one whose reader is slow, and it does not hold up others', async () => {
    await insert(
      Array.from({ length: 40 }, () => longest),
      '漢',
    );
    const { hostname, port } = new URL(gateway.url);
    // As many as two consumers may have in progress, and they are not read.
    const slow = [gateway.console, gateway.admin].flatMap(({ apiKey, apiSecret }) =>
      Array.from({ length: 2 }, () => {
        const socket = connect(Number(port), hostname).pause();
        const credentials = `x-api-key: ${apiKey}\r\nx-api-secret: ${apiSecret}`;
        socket.write(`GET /v1/quotes?limit=200 HTTP/1.1\r\nHost: x\r\n${credentials}\r\n\r\n`);
        return socket;
      }),
    );
    await Promise.all(slow.map((socket) => new Promise((resolve) => socket.once('readable', resolve))));
    const other = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const lists = Array.from({ length: 6 }, async () => {
      const response = await gateway.request('/v1/quotes?limit=200', { as: other });
      assert.equal(response.status, 200);
      return ((await response.json()) as Page).data.length;
    });
    assert.deepEqual(await Promise.all(lists), Array(6).fill(10));
    // Small ones of the same consumer need no slot.
    assert.equal((await gateway.request('/v1/quotes?limit=1')).status, 200);
    const waiting = gateway.request('/v1/quotes?limit=200');
    // A caller that leaves makes room.
    for (const socket of slow) socket.destroy();
    assert.equal((await waiting).status, 200);
  });
});
