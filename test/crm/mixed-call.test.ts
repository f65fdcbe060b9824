import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MixedCall } from '../../src/crm/batching/mixed-call.ts';
import { CrmFailure, type FailureFacts, type FailureKind } from '../../src/crm/failure.ts';
import type { CrmRequest } from '../../src/crm/rest/request.ts';
import { startCall } from '../../src/platform/base/call.ts';

const requests = {
  read: { operation: 'query', effect: 'read', method: 'GET', path: '/q' },
  write: { operation: 'create', effect: 'create', method: 'POST', path: '/c' },
} as const satisfies Record<string, CrmRequest>;

/** Operations of the calls that are made, and how the requests end, where the call that they share fails so. */
async function send(together: readonly CrmRequest[], failure: CrmFailure) {
  const calls: string[] = [];
  const client = {
    ...{ dataPath: '', writeHeaders: {} },
    exchange: async ({ operation }: CrmRequest) => {
      calls.push(operation);
      if (operation === 'mixed') throw failure;
      return { status: 200, headers: {}, body: {} };
    },
  };
  const permit = { token: undefined as never, release: () => undefined };
  const shared = new MixedCall({ client, permit, batches: 2, onTooMuch: () => undefined });
  const call = { ...startCall('test'), kind: 'test' };
  const answers = shared.permits().map(async (each, n) => each.shared?.join(together[n] as CrmRequest, call));
  return { calls, ends: await Promise.allSettled(answers) };
}

describe('requests that shared a call which failed as a whole', () => {
  const cases: [effect: keyof typeof requests, kind: FailureKind, facts: FailureFacts, isAlone: boolean][] = [
    // One of them may be at fault.
    ['write', 'setup', { status: 400 }, true],
    ['write', 'late', {}, true],
    ['read', 'broken', {}, true],
    // More calls at once would only add to the load, or fail as well.
    ['write', 'busy', { status: 429 }, false],
    ['write', 'quota', { status: 403 }, false],
    ['write', 'locked', { status: 400 }, false],
    ['read', 'failed', { status: 500 }, false],
    ['read', 'lost', {}, false],
    // They may have been done.
    ['write', 'broken', { outcomeUnknown: true }, false],
  ];
  for (const [effect, kind, facts, isAlone] of cases)
    it(`are ${isAlone ? '' : 'not '}sent at once by themselves: ${effect}s, ${kind} ${facts.status ?? ''}`, async () => {
      const request = requests[effect];
      const again = isAlone ? [request.operation, request.operation] : [];
      const { calls } = await send([request, request], new CrmFailure(kind, 'x', facts));
      assert.deepEqual(calls, ['mixed', ...again]);
    });

  for (const outcomeUnknown of [true, false])
    it(`${outcomeUnknown ? 'may' : "can't"} have been done, if they are writes, as the call ${outcomeUnknown ? 'may' : "can't"}`, async () => {
      const { ends } = await send(
        [requests.write, requests.read],
        new CrmFailure('lost', 'x', { outcomeUnknown }),
      );
      const unknown = ends.map(
        (end) => end.status === 'rejected' && (end.reason as CrmFailure).outcomeUnknown,
      );
      assert.deepEqual(unknown, [outcomeUnknown, false]);
    });
});
