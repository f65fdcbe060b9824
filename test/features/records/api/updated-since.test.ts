import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

describe('lists with updated_since', () => {
  const gateway = useGateway();

  const stamp = (second: number) => `2026-01-02T03:04:0${second}.000+0000`;
  async function pages(query: string, between = async () => {}) {
    const ids: string[] = [];
    for (let cursor = ''; ; ) {
      const response = await gateway.request(`/v1/bookings?${query}${cursor && `&cursor=${cursor}`}`);
      assert.equal(response.status, 200, await response.clone().text());
      const page = (await response.json()) as {
        data: { id: string }[];
        next_cursor: string;
        has_more: boolean;
      };
      ids.push(...page.data.map(({ id }) => id));
      if (!page.has_more) return ids;
      cursor = page.next_cursor;
      await between();
    }
  }

  test('give what has changed since, first changes first, ties by id, page by page', async () => {
    const rows = [3, 2, 2, 2, 1].map((second) => ({ id: randomUUID(), second }));
    await gateway.org.insert(
      'Booking__c',
      rows.map(({ id, second }) => ({
        ...{ External_Id__c: id, Name__c: 'a', Source__c: 's', Trip_Id__c: randomUUID() },
        ...{ CreatedDate: stamp(0), LastModifiedDate: stamp(second) },
      })),
    );
    const [last, ...others] = rows as [{ id: string }, ...{ id: string; second: number }[]];
    const ties = others.filter(({ second }) => second === 2).map(({ id }) => id);
    const wanted = [...ties.toSorted(), last.id];
    const since = 'updated_since=2026-01-02T04:04:01.500%2B01:00';
    assert.deepEqual(await pages(`${since}&limit=2`), wanted);
    assert.deepEqual(await pages('updated_since=2026-01-02T03:04:02Z'), wanted);
    // What changes meanwhile comes again, at the end.
    const [first = ''] = wanted;
    let isChanged = false;
    const change = async () => {
      if (!isChanged) await gateway.org.edit('Booking__c', { External_Id__c: first }, { Name__c: 'b' });
      isChanged = true;
    };
    assert.deepEqual(await pages(`${since}&limit=1`, change), [...wanted, first]);
    assert.deepEqual(await pages('updated_since=2099-01-01T00:00:00Z'), []);
    assert.equal((await pages('updated_since=0001-01-01T00:00:00Z')).length, 5);
  });

  test('have cursors of their own', async () => {
    const response = await gateway.request('/v1/members?limit=1');
    const { next_cursor: cursor } = (await response.json()) as { next_cursor: string };
    const other = await gateway.request(
      `/v1/members?limit=1&updated_since=2020-01-01T00:00:00Z&cursor=${cursor}`,
    );
    await assertProblem(other, 400, 'invalid_cursor', 'cursor');
    await assertProblem(
      await gateway.request('/v1/quotes?updated_since=yesterday'),
      400,
      'invalid_request',
      'updated_since',
    );
  });
});
