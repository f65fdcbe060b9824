import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { readableLine } from '../../../src/platform/observability/readable-line.ts';

const line = (facts: object) => stripVTControlCharacters(readableLine(JSON.stringify(facts)));

test('a line for people has time, level, sentence, facts, and the stack of an error below', () => {
  const time = '2027-03-01T08:00:00.123Z';
  assert.equal(
    line({ level: 'info', time, url: 'http://127.0.0.1:8080', count: 2, name: 'two words', msg: 'ready' }),
    "08:00:00.123 INFO  ready url=http://127.0.0.1:8080 count=2 name='two words'\n",
  );
  assert.equal(
    line({ level: 'error', time, err: { message: 'no', stack: 'Error: no\n    at x' }, msg: 'it failed' }),
    '08:00:00.123 ERROR it failed\nError: no\n    at x\n',
  );
});
