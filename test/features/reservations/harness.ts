import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import {
  type Claim,
  createLedger,
  type ExecutedAnswer,
  type Ledger,
} from '../../../src/api/idempotency/ledger.ts';
import { createCrmConnector } from '../../../src/features/reservations/connectors/crm.ts';
import { reservationMetrics } from '../../../src/features/reservations/metrics.ts';
import type { Plan } from '../../../src/features/reservations/plan.ts';
import { PlansTable } from '../../../src/features/reservations/plans-table.ts';
import {
  createReservations,
  type NewReservation,
  type Reservations,
} from '../../../src/features/reservations/reservations.ts';
import { reservationAnswers } from '../../../src/features/reservations/routes/schemas.ts';
import { startCall } from '../../../src/platform/base/call.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { resourcesOf } from '../../../src/records/mapping.ts';
import { databaseKinds, type TestDatabase } from '../../support/databases.ts';
import { type LogLine, recordLog } from '../../support/log.ts';
import { runClaimed } from '../../support/run-claimed.ts';
import { MemorySystems } from './memory-systems.ts';

/** What a keyed request came to: its answer, or the code of what was thrown. */
export type Result =
  | { status: number; body: string; replayed: boolean }
  | { problem: string; unknown: boolean };

/** Reservations over a real database and two systems in memory, asked as the routes ask. */
export class Harness {
  systems = new MemorySystems();
  reservations: Reservations;
  logLines: LogLine[] = [];
  readonly database: Database;
  readonly #ledger: Ledger;
  readonly #stop: TestDatabase['stop'];

  private constructor({ replicas: [database], stop }: TestDatabase) {
    this.database = database;
    this.#stop = stop;
    this.reservations = this.#newReservations();
    this.#ledger = createLedger({
      database,
      metrics: createMetrics(reservationMetrics),
      retentionHours: 24,
      statementsAtOnce: 2,
    });
  }

  static async open(name: string): Promise<Harness | undefined> {
    const opened = await databaseKinds[name]?.();
    return opened && new Harness(opened);
  }

  /** Forgets everything. */
  async clear(): Promise<void> {
    await this.database.execute('truncate reservations, idempotency_claims, events');
    this.systems = new MemorySystems();
    this.reservations = this.#newReservations();
  }

  #newReservations(): Reservations {
    const { log, lines } = recordLog();
    this.logLines = lines;
    return this.replica(this.database, log);
  }

  /** Those of a further process, on this view of the database. */
  replica(database: Database, log = recordLog().log): Reservations {
    const { records, dining } = this.systems;
    return createReservations({
      database,
      log,
      metrics: createMetrics(reservationMetrics),
      records,
      resources: resourcesOf(),
      crm: createCrmConnector({
        records,
        booking: resourcesOf().booking,
        checkHealth: async () => ({ connected: true }),
      }),
      dining,
      answers: reservationAnswers,
    });
  }

  order(change: Partial<NewReservation['order']['table']> = {}): NewReservation {
    const guest = {
      givenName: 'Inés',
      familyName: 'Marín',
      email: 'ines@example.com',
      phone: '+12025550143',
    };
    return {
      order: {
        tripId: randomUUID(),
        name: 'Casa Olivo, a table for four',
        table: {
          memberId: this.systems.memberId,
          merchantId: 'casa-olivo-7',
          serviceId: 'table',
          startAt: '2099-12-04T19:00:00.000Z',
          partySize: 4,
          durationMinutes: 90,
          timeZone: null,
          guest,
          ...change,
        },
      },
      details: '{"n":1.10}',
    };
  }

  create(key: string, order: NewReservation): Promise<Result> {
    return this.#keyed(key, 'create', (claim) =>
      this.reservations.create(order, claim, startCall('request-1')),
    );
  }

  cancel(key: string, id: string): Promise<Result> {
    return this.#keyed(key, `cancel ${id}`, (claim) =>
      this.reservations.cancel(id, claim, startCall('request-2')),
    );
  }

  async #keyed(
    key: string,
    what: string,
    execute: (claim: Claim) => Promise<ExecutedAnswer>,
  ): Promise<Result> {
    const request = {
      consumerId: 'con_test',
      key,
      operation: what,
      fingerprint: Buffer.from(what.padEnd(64).slice(0, 64)),
      externalId: randomUUID(),
    };
    try {
      const { answer, replayed } = await runClaimed(this.#ledger, request, (claim) =>
        execute(claim).catch(finalOnes),
      );
      return { status: answer.status, body: answer.body, replayed };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return { problem: error.code, unknown: error.facts.outcomeUnknown ?? false };
    }
  }

  plan(id: string): Promise<Plan | undefined> {
    return new PlansTable(this.database).find(id, 'all');
  }

  async plans(): Promise<Plan[]> {
    const { rows } = await sql<{ id: string }>`select id from reservations order by created_at`.execute(
      this.database.sql,
    );
    return Promise.all(rows.map(async ({ id }) => (await this.plan(id)) as Plan));
  }

  /** The events so far, oldest first: type, the reservation's status, and those of its parts. */
  async events(): Promise<unknown[][]> {
    const { rows } = await this.database.execute(
      'select type, resource_id, permission_resource, data from events order by sequence',
    );
    return (rows as Record<string, string>[]).map(({ type, resource_id, permission_resource, data }) => {
      const { id, status, booking, dining } = JSON.parse(data as string);
      assert.deepEqual([resource_id, permission_resource], [id, 'bookings']);
      return [type, status, booking.status, dining.status];
    });
  }

  /** All leases run out, and everything is due, as time would have it. */
  async passTime(): Promise<void> {
    await this.database.execute(
      'update reservations set lease_until = now(), next_attempt_at = now(); update idempotency_claims set lease_until = now()',
    );
  }

  /** What the job does: one plan that is due, driven. False where there is none. */
  async runJob(): Promise<boolean> {
    const drive = await this.reservations.takeDue();
    await drive?.();
    return drive !== undefined;
  }

  close(): Promise<void> {
    return this.#stop();
  }
}

/** As the routes do it: a problem that is final is an answer. */
function finalOnes(error: unknown): ExecutedAnswer {
  if (!(error instanceof Problem) || !(error.code === 'conflict' || [404, 422].includes(error.status)))
    throw error;
  return reservationAnswers.refused(error, 'request-1');
}
