import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Create, type Creation } from '../../src/crm/batching/write.ts';
import { CrmFailure } from '../../src/crm/failure.ts';
import { UsableColumns } from '../../src/crm/usable-columns.ts';
import { startCall } from '../../src/platform/base/call.ts';
import { type Chance, replaceChance } from '../../src/platform/base/chance.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';

const validUntil = 1_800_000_000_000;
const creation = { values: {}, readBack: false, visible: 'all' } as const;
const items = [
  { ...creation, externalId: 'a', validUntil },
  { ...creation, externalId: 'b' },
];

describe('a creation beside another whose offer ends while the call fails', () => {
  let real: Chance;
  let [now, sent] = [0, 0];
  beforeEach(() => {
    real = replaceChance({} as Chance);
    replaceChance({ ...real, wallMs: () => now });
    [now, sent] = [validUntil - 1, 0];
  });
  afterEach(() => void replaceChance(real));

  /** The first call fails so, and the offer has ended by then. */
  function create(failure: Error, given: readonly Creation[] = items) {
    const execute = async () => {
      sent += 1;
      now = validUntil;
      if (sent === 1) throw failure;
      return { status: 201, headers: {}, body: { id: '001000000000001' } };
    };
    const client = { execute, dataPath: '', writeHeaders: {} };
    const columns = new UsableColumns({ resource: quote, now: () => 0 });
    const operation = new Create({ client, columns, toRecordOf: () => () => undefined });
    return operation.execute(given, { ...startCall('test'), kind: 'test' });
  }

  it('is sent again where nothing was done', async () => {
    const [ended, made] = await create(new CrmFailure('late', 'x'));
    assert.ok(ended && 'failure' in ended && ended.failure.kind === 'ended');
    assert.ok(made && 'result' in made);
    assert.equal(sent, 2);
  });

  const lost = new CrmFailure('lost', 'x', { outcomeUnknown: true });
  const refusals: [why: string, failure: Error, given: readonly Creation[]][] = [
    ['it may have been made', lost, items],
    ['the failure is one of the program', new Error('x'), items],
    ['no offer has ended', new CrmFailure('late', 'x'), items.slice(1)],
  ];
  for (const [why, failure, given] of refusals)
    it(`is not sent again where ${why}`, async () => {
      await assert.rejects(create(failure, given), failure);
      assert.equal(sent, 1);
    });
});
