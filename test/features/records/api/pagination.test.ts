import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';

interface Page {
  data: { id: string; created_at: string }[];
  next_cursor: string | null;
}

describe('walking through a list', () => {
  const gateway = useGateway();

  /** Rows in groups of 500 that share their second of creation, the oldest first. */
  const rows = (count: number, firstSecond: number) =>
    Array.from({ length: count }, (_, i) => ({
      External_Id__c: randomUUID(),
      Name__c: 'a',
      Source__c: 'b',
      CreatedDate: new Date(Date.UTC(2026, 0, 1) + (firstSecond + Math.floor(i / 500)) * 1000).toISOString(),
    }));

  test('misses and repeats nothing that existed throughout, while rows come and go', async () => {
    const lasting = rows(10_000, 100);
    const doomed = rows(500, 100);
    await gateway.org.insert('Quote__c', [...lasting, ...doomed]);
    const seen: Page['data'] = [];
    let cursor: string | null = null;
    let pages = 0;
    do {
      const query = cursor === null ? '' : `&cursor=${cursor}`;
      const response: Response = await gateway.request(`/v1/quotes?limit=200${query}`);
      assert.equal(response.status, 200);
      const page = (await response.json()) as Page;
      seen.push(...page.data);
      cursor = page.next_cursor;
      pages += 1;
      // Newer and older than the position, and in the very second that it is in.
      await gateway.org.insert('Quote__c', [...rows(3, 0), ...rows(3, 200), ...rows(3, 110)]);
      const victims = doomed.splice(0, 8).map(({ External_Id__c }) => External_Id__c);
      await gateway.org.remove('Quote__c', victims);
    } while (cursor !== null);

    assert.ok(pages >= 50);
    const ids = seen.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, 'a row came twice');
    const found = new Set(ids);
    assert.deepEqual(
      lasting.filter(({ External_Id__c }) => !found.has(External_Id__c)),
      [],
    );
    const order = seen.map(({ created_at, id }) => `${created_at} ${id}`);
    assert.deepEqual(
      order,
      order.toSorted((a, b) => (a < b ? 1 : -1)),
    );
  });
});
