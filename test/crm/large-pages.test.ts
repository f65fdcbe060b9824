import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createLargePages } from '../../src/crm/large-pages.ts';
import { startCall } from '../../src/platform/base/call.ts';

const of = (consumer: string, budgetMs?: number) => startCall('a test', consumer, budgetMs);

it('has sixteen slots, four for any one consumer; slots that are given back alternate between consumers', async () => {
  const pages = createLargePages();
  const came: string[] = [];
  const enter = async (name: string) => {
    const leave = await pages.enter(of(name.slice(0, 1)), 0);
    came.push(name);
    return leave;
  };
  const inside = await Promise.all(
    ['a', 'b', 'c', 'd'].flatMap((consumer) => [1, 2, 3, 4].map((n) => enter(`${consumer}${n}`))),
  );
  assert.equal(pages.tryEnter(of('e')), undefined);
  came.length = 0;
  const waiting = ['a5', 'a6', 'a7', 'e1', 'e2', 'f1'].map(enter);
  // A slot that another consumer gives back is none for one that has four; it gets a later one.
  for (const leave of inside.slice(4, 7)) leave();
  await Promise.all([waiting[3], waiting[5], waiting[4]]);
  assert.deepEqual(came, ['e1', 'f1', 'e2']);
  // Twice is once.
  inside[0]?.();
  inside[0]?.();
  await waiting[0];
  assert.equal(pages.tryEnter(of('f')), undefined);
  for (const leave of inside.slice(1)) leave();
  await Promise.all(waiting);
  assert.deepEqual(came, ['e1', 'f1', 'e2', 'a5', 'a6', 'a7']);
});

it('refuses a page that gets no slot in time, says why, and leaves time for the call', async () => {
  const pages = createLargePages();
  for (let index = 0; index < 4; index++) pages.tryEnter(of('a'));
  await assert.rejects(pages.enter(of('a', 10_010), 10_000), {
    code: 'crm_unavailable',
    message: 'Too many large pages are in progress.',
    facts: { retryAfter: 1 },
  });
});
