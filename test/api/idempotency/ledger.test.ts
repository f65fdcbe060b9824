import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { packAnswer } from '../../../src/api/idempotency/answer-text.ts';
import { completeForPlan } from '../../../src/api/idempotency/claims-table.ts';
import type { StoredAnswer } from '../../../src/api/idempotency/keyed-request.ts';
import { type Claim, createLedger, type Ledger } from '../../../src/api/idempotency/ledger.ts';
import { Problem } from '../../../src/platform/base/problem.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { databaseKinds, type TestDatabase } from '../../support/databases.ts';
import { lateAnswers } from '../../support/late-answers.ts';
import { recordLog } from '../../support/log.ts';
import { runClaimed } from '../../support/run-claimed.ts';
import { newRequest } from './keyed-requests.ts';

const created: StoredAnswer = {
  status: 201,
  headers: { 'content-type': 'application/json; charset=utf-8', location: '/v1/quotes/1', etag: '"x"' },
  body: '{"name":"Zürich 😀","n":0.10}',
};

for (const [name, open] of Object.entries(databaseKinds)) {
  describe(`the ledger on ${name}`, () => {
    let opened: TestDatabase | undefined;
    let database: Database;
    let ledger: Ledger;

    before(async () => {
      opened = await open();
      if (!opened) return;
      [database] = opened.replicas;
      ledger = createLedger({ database, metrics: createMetrics(), retentionHours: 24, statementsAtOnce: 2 });
    });
    after(() => opened?.stop());

    const behaves = (what: string, body: () => Promise<void>) =>
      void test(what, async (context) => (opened ? body() : context.skip('there is no PostgreSQL')));

    const succeed = async () => created;
    const neverRun = async () => assert.fail('must not run');
    const fails = (code: string) => (error: unknown) => error instanceof Problem && error.code === code;
    const age = (key: string, change: string) =>
      sql`update idempotency_claims set ${sql.raw(change)} where key = ${key}`.execute(database.sql);

    behaves('carries a request out once and replays its answer byte for byte', async () => {
      const request = newRequest();
      const first = await runClaimed(ledger, request, succeed);
      assert.deepEqual(first, { answer: created, replayed: false });
      const repeat = await runClaimed(ledger, { ...request, externalId: randomUUID() }, neverRun);
      assert.deepEqual(repeat, { answer: created, replayed: true });
    });

    behaves('takes the answer of a plan that ended later, never over one that was given', async () => {
      const request = newRequest();
      const unknown = new Problem('crm_timeout', 'Nobody knows.', { outcomeUnknown: true });
      await assert.rejects(
        runClaimed(ledger, request, () => Promise.reject(unknown)),
        unknown,
      );
      const endAs = async (body: string, externalId = request.externalId) => {
        const packed = await packAnswer({ ...created, body });
        await database.sql
          .transaction()
          .execute((transaction) => completeForPlan(transaction, { ...request, externalId }, packed));
      };
      await endAs('{"name":"of another record"}', randomUUID());
      await endAs('{"name":"first"}');
      await endAs('{"name":"second"}');
      const repeat = await runClaimed(ledger, request, neverRun);
      assert.deepEqual(repeat, { answer: { ...created, body: '{"name":"first"}' }, replayed: true });
    });

    behaves(
      'keeps the refusal of a plan under a key; without one an equal request is a new try',
      async () => {
        const requests = [{ ...newRequest(), repeatWindowSeconds: 600 }, newRequest()];
        const unknown = new Problem('crm_timeout', 'Nobody knows.', { outcomeUnknown: true });
        for (const request of requests)
          await assert.rejects(
            runClaimed(ledger, request, () => Promise.reject(unknown)),
            unknown,
          );
        const refused = await packAnswer({ ...created, status: 400 });
        const replayed: boolean[] = [];
        for (const request of requests) {
          await completeForPlan(database.sql, request, refused);
          replayed.push((await runClaimed(ledger, request, succeed)).replayed);
        }
        assert.deepEqual(replayed, [false, true]);
      },
    );

    behaves('leases a record to one claim, until that is completed', async () => {
      const record = `quotes/${randomUUID()}`;
      const write = async (claim: Claim) => {
        await claim.leaseRecord(record);
        return created;
      };
      const request = newRequest();
      await runClaimed(ledger, request, async (claim) => {
        await write(claim);
        // A refused one leaves the lease where it is.
        const others = [newRequest(), newRequest(), { ...request, consumerId: 'con_another' }, newRequest()];
        for (const other of others)
          await assert.rejects(runClaimed(ledger, other, write), fails('idempotency_in_progress'));
        return write(claim);
      });
      await runClaimed(ledger, newRequest(), write);
    });

    behaves('leases all of several records to one claim, or none', async () => {
      const records = [`quotes/${randomUUID()}`, `quotes/${randomUUID()}`] as const;
      const unknown = new Problem('crm_timeout', 'Nobody knows.', { outcomeUnknown: true });
      await runClaimed(ledger, newRequest(), async (holder) => {
        await holder.leaseRecord(records[1]);
        // It keeps what it has: what became of its calls is unknown.
        const failed = runClaimed(ledger, newRequest(), async (claim) => {
          await assert.rejects(claim.leaseRecords(records), fails('idempotency_in_progress'));
          throw unknown;
        });
        await assert.rejects(failed, unknown);
        return created;
      });
      await runClaimed(ledger, newRequest(), async (claim) => {
        await claim.leaseRecords(records);
        return created;
      });
    });

    behaves('refuses another request under the same key, finished or not', async () => {
      const request = newRequest();
      const other = { ...request, fingerprint: Buffer.alloc(32, 2) };
      await runClaimed(ledger, request, async () => {
        await assert.rejects(runClaimed(ledger, other, neverRun), fails('idempotency_key_reused'));
        return created;
      });
      await assert.rejects(runClaimed(ledger, other, neverRun), fails('idempotency_key_reused'));
    });

    behaves('keeps the tag that an earlier owner noted, though a later one did nothing', async () => {
      const request = newRequest();
      const record = `quotes/${randomUUID()}`;
      const unknown = new Problem('crm_timeout', 'Nobody knows.', { outcomeUnknown: true });
      const refused = new Problem('crm_unavailable', 'Nothing was done.');
      const before: (string | undefined)[] = [];
      for (const error of [unknown, refused, refused])
        await assert.rejects(
          runClaimed(ledger, request, async (claim) => {
            before.push(claim.before);
            await claim.leaseRecord(record);
            if (claim.before === undefined) await claim.rememberBefore('"a"');
            throw error;
          }),
          error,
        );
      assert.deepEqual(before, [undefined, '"a"', '"a"']);
    });

    behaves('forgets the tag where the only owner certainly did nothing', async () => {
      const request = newRequest();
      const refused = new Problem('crm_unavailable', 'Nothing was done.');
      const before: (string | undefined)[] = [];
      for (let n = 0; n < 2; n++)
        await assert.rejects(
          runClaimed(ledger, request, async (claim) => {
            before.push(claim.before);
            await claim.leaseRecord('quotes/1');
            await claim.rememberBefore('"a"');
            throw refused;
          }),
          refused,
        );
      assert.deepEqual(before, [undefined, undefined]);
    });

    behaves('keeps the keys of different consumers apart', async () => {
      const request = newRequest();
      await runClaimed(ledger, request, succeed);
      const foreign = await runClaimed(ledger, { ...request, consumerId: 'con_other' }, succeed);
      assert.equal(foreign.replayed, false);
    });

    behaves('lets one of a hundred parallel requests run; the others wait or get its answer', async () => {
      const request = newRequest();
      let runs = 0;
      const results = await Promise.allSettled(
        Array.from({ length: 100 }, () =>
          runClaimed(ledger, request, async () => {
            runs += 1;
            return created;
          }),
        ),
      );
      assert.equal(runs, 1);
      for (const result of results) {
        if (result.status === 'fulfilled') assert.deepEqual(result.value.answer, created);
        else assert.ok(fails('idempotency_in_progress')(result.reason));
      }
    });

    behaves(
      'a failure that may pass frees the claim at once, and the repeat continues the same record',
      async () => {
        const request = newRequest();
        const unavailable = new Problem('crm_unavailable', 'down');
        await assert.rejects(
          runClaimed(ledger, request, async () => {
            throw unavailable;
          }),
          unavailable,
        );
        let claim: Claim | undefined;
        await runClaimed(ledger, { ...request, externalId: randomUUID() }, async (own) => {
          claim = own;
          return created;
        });
        assert.equal(claim?.externalId, request.externalId);
        assert.equal(claim?.continued, true);
      },
    );

    behaves('the claim of a dead owner is taken over after its lease by exactly one repeat', async () => {
      const request = newRequest();
      const dead = Promise.withResolvers<never>();
      const started = Promise.withResolvers<void>();
      const first = runClaimed(ledger, request, () => {
        started.resolve();
        return dead.promise;
      });
      first.catch(() => {});
      await started.promise;
      await assert.rejects(runClaimed(ledger, request, neverRun), fails('idempotency_in_progress'));

      await age(request.key, "lease_until = now() - interval '1 second'");
      let takeOvers = 0;
      const repeats = await Promise.allSettled(
        Array.from({ length: 10 }, () =>
          runClaimed(ledger, request, async (claim) => {
            takeOvers += 1;
            assert.equal(claim.externalId, request.externalId);
            return created;
          }),
        ),
      );
      assert.equal(takeOvers, 1);
      assert.ok(repeats.some((repeat) => repeat.status === 'fulfilled'));

      // The old owner wakes up: it must not change what stands in the ledger.
      dead.reject(new Problem('crm_timeout', 'late'));
      await assert.rejects(first, fails('crm_timeout'));
      assert.deepEqual((await runClaimed(ledger, request, neverRun)).answer, created);
    });

    behaves('an owner that stood still before it knew of its claim writes nothing', async () => {
      const late = createLedger({
        database: lateAnswers(database, 'insert into idempotency_claims', 31_000),
        ...{ metrics: createMetrics(), retentionHours: 24, statementsAtOnce: 2 },
      });
      const request = newRequest();
      const stopped = runClaimed(late, request, async (claim) => {
        await age(request.key, "lease_until = now() - interval '1 second'");
        await claim.confirmOwnership();
        return assert.fail('must not write');
      });
      await assert.rejects(stopped, fails('idempotency_in_progress'));
      assert.deepEqual((await runClaimed(ledger, request, succeed)).answer, created);
    });

    behaves('an owner that was replaced can not complete', async () => {
      const request = newRequest();
      const slow = runClaimed(ledger, request, async () => {
        await age(request.key, "lease_until = now() - interval '1 second'");
        await runClaimed(ledger, request, succeed);
        return { ...created, body: '"late"' };
      });
      await assert.rejects(slow, fails('idempotency_in_progress'));
      assert.deepEqual((await runClaimed(ledger, request, neverRun)).answer, created);
    });

    behaves('an answer that can not be stored does not keep others from being stored', async () => {
      const gate = Promise.withResolvers<void>();
      const run = (body: string) =>
        runClaimed(ledger, newRequest(), async () => {
          await gate.promise;
          return { ...created, body };
        });
      const results = ['"a"', '"b"', '"\0"', '"c"', '"d"'].map(run);
      gate.resolve();
      const settled = await Promise.allSettled(results);
      assert.deepEqual(
        settled.map(({ status }) => status),
        ['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
      );
    });

    behaves('the key is free again when the retention is over, for any request', async () => {
      const request = newRequest();
      await runClaimed(ledger, request, succeed);
      await age(request.key, "completed_at = now() - interval '23 hours 59 minutes'");
      assert.equal((await runClaimed(ledger, request, neverRun)).replayed, true);
      await age(request.key, "completed_at = now() - interval '24 hours 1 second'");
      const other = { ...request, fingerprint: Buffer.alloc(32, 3), externalId: randomUUID() };
      let claim: Claim | undefined;
      await runClaimed(ledger, other, async (own) => {
        claim = own;
        return created;
      });
      assert.equal(claim?.externalId, other.externalId);
      assert.equal(claim?.continued, false);
    });
  });
}

test('without its database the ledger says so, and that nothing was done', async () => {
  const database = openPostgres({ url: 'postgres://127.0.0.1:1/none', log: recordLog().log });
  const ledger = createLedger({
    database,
    metrics: createMetrics(),
    retentionHours: 24,
    statementsAtOnce: 2,
  });
  await assert.rejects(
    runClaimed(ledger, newRequest(), async () => assert.fail('must not run')),
    (error) => error instanceof Problem && error.code === 'store_unavailable' && !error.facts.outcomeUnknown,
  );
  await database.close();
});
