import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { startCall } from '../../src/platform/base/call.ts';
import { findMembers } from '../../src/records/member-names.ts';
import { member } from '../../src/records/members.ts';
import type { MemberCache } from '../../src/records/offers.ts';

test('members are asked for together, however late the cache says that it has none', async () => {
  const turns = ['a', 'b', 'kept', 'c'];
  const asked: string[] = [];
  const cache = {
    async find(id: string, fetch: () => Promise<undefined>) {
      for (let turn = 0; turn <= turns.indexOf(id); turn++) await nextTurn();
      if (id === 'kept') return { nativeId: id, values: { id } };
      assert.deepEqual(asked, [], `${id} comes after the call`);
      return fetch();
    },
  } as unknown as MemberCache;
  const records = {
    async find(_resource: unknown, id: string) {
      asked.push(id);
      return id === 'b' ? undefined : { nativeId: id, values: { id } };
    },
  };
  const source = { records, member, cache: () => cache, copy: () => undefined, missing: new Map() };
  const found = await findMembers(source, [...turns, 'a', undefined], startCall('r'), true);
  assert.deepEqual([...found.keys()].toSorted(), ['a', 'c', 'kept']);
  assert.deepEqual(asked, ['a', 'b', 'c']);
});

test('a member that the CRM does not have is asked for once a minute, and forgotten among many', async () => {
  const asked: string[] = [];
  const records = {
    async find(_resource: unknown, id: string) {
      asked.push(id);
      return undefined;
    },
  };
  const missing = new Map<string, number>();
  const source = { records, member, cache: () => undefined, copy: () => undefined, missing };
  const read = (...ids: string[]) => findMembers(source, ids, startCall('r'), true);
  await read('gone', 'gone');
  assert.equal((await read('gone')).size, 0);
  assert.deepEqual(asked, ['gone']);
  missing.set('gone', 0);
  await read('gone');
  assert.deepEqual(asked, ['gone', 'gone']);
  await read(...Array.from({ length: 1200 }, (_, index) => `other ${index}`));
  assert.equal(missing.size, 1000);
  await read('gone');
  assert.equal(asked.filter((id) => id === 'gone').length, 3);
});
