import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Settled, TakenHandoff } from '../../../src/features/handoff/accepted.ts';
import { HandoffDelivery } from '../../../src/features/handoff/handoff-delivery.ts';
import type { HandoffsTable } from '../../../src/features/handoff/handoffs-table.ts';
import type { Call } from '../../../src/platform/base/call.ts';
import { now } from '../../../src/platform/base/chance.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { resourcesOf } from '../../../src/records/mapping.ts';
import type { Records } from '../../../src/records/records.ts';
import { recordLog } from '../../support/log.ts';

const errors = {
  /** It says something about the hand-off, if the CRM answers a look-up. */
  own: () => new Problem('crm_error', 'Apex failed.', { outcomeUnknown: true }),
  /** Nothing was sent. */
  away: () => new Problem('crm_unavailable', 'There is nobody.'),
};

/** A delivery of quotes in front of a CRM that does what `next` says, with a table that holds what waits. */
class Delivery {
  readonly batches: number[] = [];
  readonly settled: Settled[] = [];
  readonly messages: string[] = [];
  madeDue = 0;
  next: keyof typeof errors | 'made' = 'made';
  isAnswering = true;
  #waiting: TakenHandoff[] = [];
  readonly #delivery: HandoffDelivery;

  constructor() {
    const { log, lines } = recordLog();
    this.#delivery = new HandoffDelivery({
      ...{
        batchMs: 60_000,
        log,
        noteRecord: async () => true,
        leaseOf: () => ({
          take: async () => undefined,
          end: async () => undefined,
          endAfter: async () => true,
        }),
        rememberBefore: async () => true,
        resources: resourcesOf(),
        visibleTo: () => 'all',
      },
      records: this.#records(),
      table: this.#table(),
      lease: async () => ({ deadline: now() + 60_000 }),
      settle: async (settled) => {
        this.settled.push(...settled);
        this.messages.push(...lines.splice(0).map(({ message }) => message));
      },
    });
  }

  /** Delivers as many hand-offs, all that is taken at once. */
  async deliver(count: number): Promise<void> {
    this.#waiting = Array.from({ length: count }, newHandoff);
    await this.#delivery.run(new AbortController().signal);
    await this.#delivery.stop();
  }

  #table(): HandoffsTable {
    const take = async (type: string, most: number) => {
      if (type !== 'quote' || this.#waiting.length === 0) return [];
      this.batches.push(most);
      return this.#waiting.splice(0, most);
    };
    return {
      take,
      takeFailing: async () => [],
      takeUnsettled: async () => [],
      makeDue: async () => void (this.madeDue += 1),
    } as unknown as HandoffsTable;
  }

  #records(): Records {
    return {
      create: async (_resource: unknown, id: string, _values: unknown, _call: Call) => {
        if (this.next !== 'made') throw errors[this.next]();
        return { nativeId: id };
      },
      find: async () => undefined,
      findWithDeleted: async () => {
        if (!this.isAnswering) throw errors.away();
        return undefined;
      },
    } as unknown as Records;
  }
}

function newHandoff(): TakenHandoff {
  return {
    ...{ externalId: randomUUID(), type: 'quote', consumerId: 'con_0000000000000001', requestId: 'r' },
    ...{ tripId: randomUUID(), memberId: randomUUID(), name: 'n', source: 's', details: '{}' },
    ...{
      failures: 0,
      mayExist: false,
      isReplaced: false,
      hadRecord: undefined,
      fence: '1',
      deadline: now() + 60_000,
      actor: undefined,
    },
  } as unknown as TakenHandoff;
}

describe('the delivery of one type', () => {
  test('takes fewer at once after a failure of their own, and more again', async () => {
    const delivery = new Delivery();
    delivery.next = 'own';
    await delivery.deliver(1);
    delivery.next = 'made';
    await delivery.deliver(1);
    await delivery.deliver(1);
    assert.deepEqual(delivery.batches, [200, 100, 200]);
    assert.deepEqual(
      delivery.settled.map(({ outcome }) => outcome.status),
      ['accepted', 'created', 'created'],
    );
  });

  test("counts a failure as the hand-off's own only where the CRM answers a look-up", async () => {
    for (const isAnswering of [true, false]) {
      const delivery = new Delivery();
      Object.assign(delivery, { next: 'own', isAnswering });
      await delivery.deliver(1);
      assert.partialDeepStrictEqual(delivery.settled[0]?.outcome, {
        ...{ status: 'accepted', failures: isAnswering ? 1 : 0, mayExist: true },
      });
    }
  });

  test('says once that the CRM takes none, and once that it does again', async () => {
    const delivery = new Delivery();
    Object.assign(delivery, { next: 'own', isAnswering: false });
    await delivery.deliver(1);
    assert.equal(delivery.madeDue, 0);
    Object.assign(delivery, { next: 'made', isAnswering: true });
    // A probe of one; what had to wait for a long time is due at once.
    await delivery.deliver(1);
    assert.deepEqual(delivery.batches, [200, 1]);
    assert.equal(delivery.madeDue, 1);
    await delivery.deliver(1);
    assert.equal(delivery.madeDue, 1);
    assert.deepEqual(delivery.messages, [
      'accepted hand-offs are waiting; Salesforce takes none',
      'accepted hand-offs are delivered again',
    ]);
  });
});
