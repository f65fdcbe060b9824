import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { afterEach, describe, it, mock } from 'node:test';
import { UnsentAnswers } from '../../../src/platform/http/connections.ts';

const most = 64;

describe('answers that wait for their clients', () => {
  let time = 0;
  const cutOff: string[] = [];
  const start = () => {
    time = 0;
    cutOff.length = 0;
    mock.method(performance, 'now', () => time);
    const names = new Map<ServerResponse, string>();
    const unsent = new UnsentAnswers(most, (answer) => cutOff.push(names.get(answer) as string));
    return (caller: string, bytes: number, answer = {} as ServerResponse) => {
      names.set(answer, caller);
      unsent.note(answer, caller, bytes);
      return () => unsent.note(answer, caller, bytes);
    };
  };
  afterEach(() => mock.restoreAll());

  it('of a client that pauses are not cut off for one caller that fills the room and reads a little', () => {
    const ask = start();
    ask('pausing', 2);
    time = 8000;
    const answers = Array.from({ length: 31 }, () => ask('greedy', 2));
    for (; time < 20_000; time += 2000) for (const goOn of answers) goOn();
    ask('greedy', 2);
    assert.deepEqual(cutOff, ['greedy']);
  });

  it('of one that reads all are not cut off for another that reads nothing, though it has less', () => {
    const ask = start();
    for (let n = 0; n < 10; n++) ask('unread', 2);
    const answers = Array.from({ length: 20 }, () => ask('reading', 2));
    for (; time < 6000; time += 100) for (const goOn of answers) goOn();
    for (let n = 0; n < 3; n++) ask('reading', 2);
    assert.deepEqual(cutOff, ['unread']);
  });

  it('are cut off until the bound holds, the last one never', () => {
    const ask = start();
    for (let n = 0; n < 3; n++) ask('one', 30);
    assert.deepEqual(cutOff, ['one']);
    ask('two', 100);
    assert.deepEqual(cutOff, ['one', 'one', 'one']);
  });
});
