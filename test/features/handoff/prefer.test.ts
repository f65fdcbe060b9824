import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPreferences } from '../../../src/features/handoff/prefer.ts';

const cases: [header: string | undefined, respondAsync: boolean, waitSeconds: number][] = [
  [undefined, false, 0],
  ['', false, 0],
  ['respond-async', true, 0],
  ['RESPOND-Async', true, 0],
  ['respond-async=""', true, 0],
  ['return=minimal, respond-async;foo="a, b" , wait=7', true, 7],
  ['wait = "5", respond-async', true, 5],
  ['respond-async, wait=20', true, 20],
  ['respond-async, wait=21', true, 20],
  [`respond-async, wait=${'9'.repeat(400)}`, true, 20],
  ['respond-async, wait=3, wait=9', true, 3],
  ['respond-async, wait=0', true, 0],
  ['respond-async, wait=-1', true, 0],
  ['respond-async, wait=1.5', true, 0],
  ['respond-async, wait', true, 0],
  ['wait=5', false, 0],
  ['foo="respond-async, wait=5"', false, 0],
  ['respond-async=yes', false, 0],
  ['respond-asynchronously', false, 0],
  ['"respond-async"', false, 0],
  [',, ;x, respond-async', true, 0],
  [`respond-async${' '.repeat(1000)}`, false, 0],
];

for (const [header, respondAsync, waitSeconds] of cases) {
  test(`Prefer: ${header?.slice(0, 60)}`, () => {
    assert.deepEqual(readPreferences(header), { respondAsync, waitSeconds });
  });
}
