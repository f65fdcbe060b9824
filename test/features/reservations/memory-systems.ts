import { randomUUID } from 'node:crypto';
import type {
  ConnectorPart,
  PartStatus,
  TableConnector,
} from '../../../src/features/reservations/connectors/connector.ts';
import { type Call, remainingMs } from '../../../src/platform/base/call.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { member } from '../../../src/records/members.ts';
import type { FieldValues, Records } from '../../../src/records/records.ts';

/**
 * What becomes of one call: it takes effect; it is refused; it fails and did nothing; its answer is lost, after it took
 * effect or before.
 */
export type Outcome = 'works' | 'refused' | 'fails' | 'answerLost' | 'callLost';

/** Decides the outcome of each call; a promise delays the call until it resolves. */
export type OutcomeOf = (call: string) => Outcome | Promise<Outcome>;

function notUsed(): never {
  throw new Error('reservations do not read back what they write');
}

/** Two systems in memory that fail on demand. */
export class MemorySystems {
  outcomeOf: OutcomeOf = () => 'works';
  /** Holds the answer of a call back. */
  deliver: (call: string) => void | Promise<void> = () => {};
  /** What the partner says to a new table. */
  decision: PartStatus = 'confirmed';
  memberId: string = randomUUID();
  /** Bookings of the CRM by External ID. */
  readonly bookings = new Map<string, FieldValues>();
  /** Tables by token. */
  readonly tables = new Map<string, ConnectorPart>();
  readonly calls: string[] = [];

  /** Carries out a call with its outcome; one whose time is over is not sent. */
  async #call<T>({ name, call }: { name: string; call: Call }, refusal: Problem, work: () => T): Promise<T> {
    if (remainingMs(call) === 0) throw new Problem('crm_timeout', 'No time was left.');
    this.calls.push(name);
    const side = name.startsWith('dining') ? 'partner' : 'crm';
    const outcome = await this.outcomeOf(name);
    try {
      return this.#carryOut(side, outcome, refusal, work);
    } finally {
      await this.deliver(name);
    }
  }

  #carryOut<T>(side: 'partner' | 'crm', outcome: Outcome, refusal: Problem, work: () => T): T {
    if (outcome === 'refused') throw refusal;
    if (outcome === 'fails') throw new Problem(`${side}_unavailable`, 'Not now.', { retryAfter: 1 });
    if (outcome === 'callLost') throw new Problem(`${side}_timeout`, 'No answer.', { outcomeUnknown: true });
    const result = work();
    if (outcome === 'answerLost')
      throw new Problem(`${side}_timeout`, 'No answer.', { outcomeUnknown: true });
    return result;
  }

  readonly records: Records = {
    admit: () => {},
    now: Date.now,
    create: (_resource, id, values, call) => {
      const refusal = new Problem('crm_rejected', 'A rule.');
      return this.#call({ name: 'crm.create', call }, refusal, () => {
        if (!this.bookings.has(id)) this.bookings.set(id, values);
        return { nativeId: id, values };
      }).catch((error: unknown) => {
        // An earlier insert came through: the CRM names the duplicate, and it is ours.
        if (error === refusal && this.bookings.has(id)) return { nativeId: id, values };
        throw error;
      });
    },
    find: (resource, id, call) =>
      this.#call(
        { name: `crm.find ${resource.name}`, call },
        new Problem('crm_unavailable', 'Not now.'),
        () => {
          const isMember = resource.name === member.name;
          const values = isMember ? id === this.memberId && {} : this.bookings.get(id);
          return values ? { nativeId: id, values } : undefined;
        },
      ),
    // Nothing of a deleted booking is kept: as an org whose recycle bin was emptied.
    findWithDeleted: async (_resource, id) => {
      const values = this.bookings.get(id);
      return values && { nativeId: id, values };
    },
    list: async () => ({ records: [], hasMore: false }),
    update: (_resource, { nativeId }, values, call) =>
      this.#call({ name: 'crm.update', call }, new Problem('crm_rejected', 'A rule.'), () => {
        const before = this.bookings.get(nativeId);
        if (!before) throw new Problem('not_found', 'Gone.');
        this.bookings.set(nativeId, { ...before, ...values });
      }),
    writeTogether: notUsed,
    findTogether: notUsed,
    listTogether: notUsed,
    createAndRead: notUsed,
    updateAndRead: notUsed,
    remove: (_resource, { nativeId }, call) =>
      this.#call({ name: 'crm.remove', call }, new Problem('conflict', 'It is locked.'), () => {
        if (!this.bookings.delete(nativeId)) throw new Problem('not_found', 'Gone.');
      }),
  };

  readonly dining: TableConnector = {
    name: 'dining',
    merchants: () => [],
    areFree: async (slots) => slots.map(() => true),
    create: (_order, { token, repeated }, call) => {
      const refusal = new Problem('partner_rejected', 'The slot is gone.', {
        partnerCause: 'SLOT_UNAVAILABLE',
      });
      return this.#call({ name: 'dining.create', call }, refusal, () => {
        const part = this.tables.get(token) ?? { reference: `T-${token}`, status: this.decision };
        this.tables.set(token, part);
        return part;
      }).catch((error: unknown) => {
        // As the interface has it: a refusal that an earlier attempt could have caused itself is none.
        const existing = repeated ? this.tables.get(token) : undefined;
        if (error === refusal && existing) return existing;
        throw error;
      });
    },
    retrieve: (reference, _order, call) =>
      this.#call({ name: 'dining.retrieve', call }, new Problem('partner_error', 'Odd.'), () =>
        this.tables.get(reference.slice(2)),
      ),
    cancel: (reference, _order, call) => {
      const part = this.tables.get(reference.slice(2));
      const refusal = new Problem('conflict', 'It is too late to cancel.');
      return this.#call({ name: 'dining.cancel', call }, refusal, () => {
        if (part) part.status = 'cancelled';
      }).catch((error: unknown) => {
        if (error !== refusal || part?.status !== 'cancelled') throw error;
      });
    },
    checkHealth: async () => ({ connected: true }),
  };
}
