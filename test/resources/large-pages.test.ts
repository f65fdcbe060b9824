import assert from 'node:assert/strict';
import { it } from 'node:test';
import { startCall } from '../../src/base/call.ts';
import { createLargePages } from '../../src/resources/large-pages.ts';

const of = (consumer: string, budgetMs?: number) => startCall('a test', consumer, budgetMs);

it('has sixteen places, two for any one consumer; who leaves makes room for who waits longest and may', async () => {
  const places = createLargePages();
  const ofA = Array.from({ length: 2 }, () => places.tryEnter(of('a')));
  assert.ok(ofA.every((leave) => leave));
  assert.equal(places.tryEnter(of('a')), undefined);
  const came: string[] = [];
  const enter = async (name: string, consumer: string) => {
    const leave = await places.enter(of(consumer), 0);
    came.push(name);
    return leave;
  };
  const waiting = [enter('a3', 'a'), enter('a4', 'a')];
  const names = Array.from({ length: 14 }, (_, n) => `other${n}`);
  const ofOthers = await Promise.all(names.map((name, n) => enter(name, `other${n % 7}`)));
  assert.equal(places.tryEnter(of('c')), undefined);
  const c = enter('c', 'c');
  // Twice is once.
  ofOthers[0]?.();
  ofOthers[0]?.();
  (await c)();
  ofA[0]?.();
  (await waiting[0])?.();
  await waiting[1];
  assert.deepEqual(came, [...names, 'c', 'a3', 'a4']);
  for (const leave of ofOthers) leave();
  assert.ok(places.tryEnter(of('c')));
});

it('turns away who finds no place in time, says why, and leaves time for the call', async () => {
  const places = createLargePages();
  for (let index = 0; index < 2; index++) places.tryEnter(of('a'));
  await assert.rejects(places.enter(of('a', 10_010), 10_000), {
    code: 'crm_unavailable',
    message: 'Too many large pages are in progress.',
    facts: { retryAfter: 1 },
  });
});
