import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Permits } from '../../src/crm/rest/permits.ts';
import { startCall } from '../../src/platform/base/call.ts';
import { createMetrics } from '../../src/platform/observability/metrics.ts';

type Options = ConstructorParameters<typeof Permits>[0];

const of = (consumer: string, budgetMs?: number) => startCall('a test', consumer, budgetMs);

function newPermits(): Permits {
  const options = { maxConcurrency: 20, shortestCallMs: 10_000, metrics: createMetrics() };
  return new Permits(options as unknown as Options);
}

it('has sixteen slots for large pages, four for any one consumer', () => {
  const permits = newPermits();
  const taken = ['a', 'b', 'c', 'd', 'e'].flatMap((consumer) =>
    Array.from({ length: 5 }, () =>
      permits.tryLargePage(of(consumer)) === undefined ? [] : [consumer],
    ).flat(),
  );
  assert.equal(taken.join(''), 'aaaabbbbccccdddd');
});

it('refuses a page that gets no slot in time, says why, and leaves time for the call', async () => {
  const permits = newPermits();
  for (let index = 0; index < 4; index++) permits.tryLargePage(of('a'));
  await assert.rejects(permits.largePage(of('a', 10_010)), {
    code: 'crm_unavailable',
    message: 'Too many large pages are in progress.',
    facts: { retryAfter: 1 },
  });
});
