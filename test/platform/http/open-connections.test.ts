import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { OpenConnections } from '../../../src/platform/http/open-connections.ts';

const from = (remoteAddress: string) => ({ remoteAddress }) as Socket;

describe('as many connections as allowed', () => {
  const addresses = 20_000;

  // Where each new one looked at all addresses, these took a minute, in which nobody was served.
  it('are replaced at once, however many addresses they are from', { timeout: 20_000 }, async () => {
    const all = new OpenConnections(addresses, (address) => address);
    const replaced: string[] = [];
    for (let n = 0; n < 4 * addresses; n++) {
      all.add(from(`a${n}`), ({ remoteAddress }) => replaced.push(remoteAddress as string));
      // So that the time is kept.
      if (n % 1000 === 0) await turn();
    }
    assert.equal(replaced.length, 3 * addresses);
    // Those that have rested longest come first.
    assert.deepEqual([replaced[0], replaced.at(-1)], ['a0', `a${3 * addresses - 1}`]);
  });

  it('are replaced by what addresses hold, whatever comes and goes', () => {
    const all = new OpenConnections(4, (address) => address);
    const replaced: string[] = [];
    const enter = (address: string) =>
      all.add(from(address), (socket) => replaced.push(socket.remoteAddress as string));
    const [one, two] = [enter('a'), enter('a')];
    enter('b');
    enter('b');
    one?.markBusy();
    two?.markBusy();
    enter('c');
    assert.deepEqual(replaced, ['b']);
    // Of the addresses that hold as much as its own would, none has one that rests.
    assert.equal(enter('b') === undefined, false);
    assert.deepEqual(replaced, ['b', 'b']);
    one?.markIdle();
    one?.markIdle();
    enter('d');
    assert.deepEqual(replaced, ['b', 'b', 'a']);
    two?.close();
    two?.markIdle();
    enter('d');
    enter('e');
    assert.deepEqual(replaced, ['b', 'b', 'a', 'd']);
  });
});
