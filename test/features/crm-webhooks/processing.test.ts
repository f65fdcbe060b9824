import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import {
  crmWebhookMetrics,
  type ProcessorOptions,
  WebhookProcessor,
} from '../../../src/features/crm-webhooks/processor.ts';
import { WebhooksTable } from '../../../src/features/crm-webhooks/webhooks-table.ts';
import { createMetrics } from '../../../src/platform/observability/metrics.ts';
import type { Database } from '../../../src/platform/store/database.ts';
import { migrate } from '../../../src/platform/store/migrate.ts';
import { openPostgres } from '../../../src/platform/store/postgres.ts';
import { databaseKinds, type TestDatabase } from '../../support/databases.ts';
import { ownEnvironment } from '../../support/environment.ts';
import { eventually } from '../../support/eventually.ts';
import { recordLog } from '../../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../../support/postgres.ts';

const postgres: PostgresDatabase | undefined = await startPostgres();
after(() => postgres?.stop());

for (const [name, open] of Object.entries(databaseKinds)) {
  describe(`received webhooks on ${name}`, () => {
    let opened: TestDatabase | undefined;
    let database: Database;
    let table: WebhooksTable;

    before(async () => {
      opened = await open(3);
      if (!opened) return;
      [database] = opened.replicas;
      table = new WebhooksTable(database);
    });
    beforeEach(async () => void (opened && (await database.execute('delete from webhook_events'))));
    after(() => opened?.stop());

    const behaves = (what: string, body: (one: TestDatabase) => Promise<void>) =>
      void test(what, async (context) => {
        if (!opened) return context.skip('there is no PostgreSQL');
        await body(opened);
      });
    /** `finished` gets the ids of what was applied, in that order. */
    const processor = (
      apply: ProcessorOptions['apply'],
      on = database,
      recorded = recordLog(),
      finished: string[] = [],
    ) => {
      const table = new WebhooksTable(on);
      return new WebhookProcessor({
        table: {
          take: () => table.take(),
          finish: (webhook) => {
            finished.push(webhook.webhook_id);
            return table.finish(webhook);
          },
          fail: (...failure) => table.fail(...failure),
        },
        apply,
        log: recorded.log,
        metrics: createMetrics(crmWebhookMetrics),
      });
    };
    const add = async (memberId: string, minute: number, webhookId = `msg_${randomUUID()}`) => {
      const occurredAt = new Date(Date.UTC(2027, 0, 1, 0, minute));
      const webhook = { webhookId, type: 'member.updated', occurredAt, memberId, payload: '{}' };
      assert.equal(await table.add(webhook), true);
      return webhookId;
    };
    const stateOf = async (id: string) =>
      (await table.list(undefined, 1000)).find(({ webhook_id }) => webhook_id === id);
    const makeDue = () =>
      database.execute("update webhook_events set due_at = now() where state = 'received'");

    behaves('are applied in the order of their times, each member for itself', async () => {
      const [first, second] = [randomUUID(), randomUUID()];
      const added = [
        await add(first, 3),
        await add(first, 1),
        await add(second, 2),
        await add(first, 2),
        await add(second, 1),
      ];
      const applied: string[] = [];
      // Their times do not show it: two may end in one millisecond.
      const order: string[] = [];
      const apply = async ({ memberId }: { memberId: string }) => void applied.push(memberId);
      await processor(apply, database, recordLog(), order).run();
      assert.equal(applied.length, 5);
      const finished = await table.list('processed', 10);
      for (const member of [first, second]) {
        const times = finished
          .filter(({ member_id }) => member_id === member)
          .toSorted((a, b) => order.indexOf(a.webhook_id) - order.indexOf(b.webhook_id))
          .map(({ event_at }) => +event_at);
        assert.deepEqual(
          times,
          times.toSorted((a, b) => a - b),
        );
      }
      assert.ok(finished.every(({ attempts, came_late }) => attempts === 1 && !came_late));
      assert.deepEqual(finished.map(({ webhook_id }) => webhook_id).sort(), added.toSorted());
    });

    behaves('that come after a later one was applied are marked as late', async () => {
      const member = randomUUID();
      const work = processor(async () => {});
      const late = await add(member, 5)
        .then(() => work.run())
        .then(() => add(member, 4));
      await work.run();
      assert.partialDeepStrictEqual(await stateOf(late), { state: 'processed', came_late: true });
      const next = await add(member, 6);
      await work.run();
      assert.equal((await stateOf(next))?.came_late, false);
    });

    behaves('keep no body once they are processed or ignored, and are replayed without it', async () => {
      const applied: string[] = [];
      const work = processor(async ({ memberId }) => void applied.push(memberId));
      const id = await add(randomUUID(), 1);
      const other = { webhookId: 'msg_other', type: 'account.merged', memberId: null, payload: '{}' };
      await table.add({ ...other, occurredAt: new Date() });
      const bodies = async () =>
        (await database.execute('select payload from webhook_events order by sequence')).rows;
      assert.deepEqual(await bodies(), [{ payload: '{}' }, { payload: '' }]);
      await work.run();
      assert.deepEqual(await bodies(), [{ payload: '' }, { payload: '' }]);
      await table.replay(id);
      await work.run();
      assert.equal(applied.length, 2);
    });

    behaves('are taken by one of several replicas', async ({ replicas }) => {
      const ids = await Promise.all(Array.from({ length: 150 }, (_, n) => add(randomUUID(), n % 7)));
      const applied: string[] = [];
      const apply = async ({ memberId }: { memberId: string }) => void applied.push(memberId);
      const running = [...replicas, ...replicas].map((one) => processor(apply, one));
      await Promise.all(running.map((one) => one.run()));
      assert.equal(applied.length, ids.length);
      assert.equal(new Set(applied).size, ids.length);
      assert.equal((await table.list('processed', 1000)).length, ids.length);
    });

    behaves(
      'that fail are tried again, hold up no other member, and are dead after twelve attempts',
      async () => {
        const [poisoned, healthy] = [randomUUID(), randomUUID()];
        const bad = await add(poisoned, 1);
        const behind = await add(poisoned, 2);
        const good = await add(healthy, 1);
        const recorded = recordLog();
        const attempts: string[] = [];
        const work = processor(
          async ({ memberId }) => {
            attempts.push(memberId);
            if (memberId === poisoned && attempts.length < 14) throw new TypeError('secret of a member');
          },
          database,
          recorded,
        );
        await work.run();
        assert.equal((await stateOf(good))?.state, 'processed');
        assert.partialDeepStrictEqual(await stateOf(bad), {
          state: 'received',
          attempts: 1,
          last_error: 'TypeError',
        });
        // It is not due yet, and the later one of the same member waits for it.
        await database.execute(
          "update webhook_events set due_at = now() + interval '1 hour' where state = 'received'",
        );
        await work.run();
        assert.equal((await stateOf(behind))?.attempts, 0);
        await eventually(async () => {
          await makeDue();
          await work.run();
          assert.notEqual((await stateOf(bad))?.state, 'received');
        });
        assert.partialDeepStrictEqual(await stateOf(bad), { state: 'dead', attempts: 12 });
        assert.equal((await stateOf(behind))?.state, 'processed');
        assert.ok(
          recorded.lines.some(({ level, facts }) => level === 'error' && facts['webhook_id'] === bad),
        );
        assert.doesNotMatch(JSON.stringify(await table.list(undefined, 10)), /secret of a member/);

        assert.deepEqual(await table.replay(bad), { state: 'dead', type: 'member.updated' });
        await work.run();
        assert.partialDeepStrictEqual(await stateOf(bad), {
          state: 'processed',
          attempts: 1,
          came_late: true,
        });
      },
    );

    behaves('of a process that died are taken again after their lease, and not before', async () => {
      const id = await add(randomUUID(), 1);
      const [taken] = await table.take();
      assert.equal(taken?.webhook_id, id);
      const applied: string[] = [];
      const work = processor(async ({ memberId }) => void applied.push(memberId));
      await work.run();
      assert.equal(applied.length, 0);
      await makeDue();
      await work.run();
      assert.equal(applied.length, 1);
      assert.equal(await table.finish(taken as never), false);
      assert.partialDeepStrictEqual(await stateOf(id), { state: 'processed', attempts: 2 });
    });

    behaves('that are replayed can be finished by no process that took them before', async () => {
      const id = await add(randomUUID(), 1);
      const [suspended] = await table.take();
      await makeDue();
      await processor(async () => {}).run();
      await table.replay(id);
      assert.equal((await stateOf(id))?.attempts, 0);
      const [taken] = await table.take();
      assert.equal(taken?.attempts, 1);
      assert.equal(await table.finish(suspended as never), false);
      await table.fail(suspended as never, 'TypeError', undefined);
      assert.equal(await table.finish(taken as never), true);
      assert.partialDeepStrictEqual(await stateOf(id), { state: 'processed', attempts: 1, last_error: null });
    });

    behaves('are deleted after their retention, unless they still wait', async () => {
      const old = await add(randomUUID(), 1);
      await processor(async () => {}).run();
      const left = [await add(randomUUID(), 1)];
      await database.execute("update webhook_events set received_at = now() - interval '31 days'");
      left.push(await add(randomUUID(), 1));
      assert.equal(await table.deleteOlderThan(30), 1);
      assert.equal(await stateOf(old), undefined);
      assert.deepEqual(
        (await table.list(undefined, 10)).map(({ webhook_id }) => webhook_id).sort(),
        left.sort(),
      );
    });
  });
}

describe('handoff webhook', { skip: !postgres && 'no PostgreSQL' }, () => {
  let dir: string;
  let database: Database;
  const program = join(import.meta.dirname, '../../../src/cli/main.ts');

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'handoff-webhook-cli-'));
    await writeFile(join(dir, 'config.json'), '{}');
    database = openPostgres({ url: (postgres as PostgresDatabase).url, log: recordLog().log });
    await migrate(database);
    await database.execute('delete from webhook_events');
  });
  after(async () => {
    await database.close();
    await rm(dir, { recursive: true, maxRetries: 5 });
  });

  const run = (...args: string[]) =>
    new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
      const all = [program, '--config', join(dir, 'config.json'), 'webhook', ...args];
      const env = { ...ownEnvironment(), DATABASE_URL: postgres?.url, DATA_DIR: dir };
      execFile(process.execPath, all, { env }, (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    });

  test('lists webhooks by state without what they hold, and replays a dead one', async () => {
    assert.equal((await run('list')).stdout, 'No webhooks found.\n');
    const table = new WebhooksTable(database);
    const memberId = randomUUID();
    for (const [webhookId, type] of [
      ['msg_a', 'member.updated'],
      ['msg_b', 'account.merged'],
    ] as const) {
      const payload = '{"email":"ines.marin@example.com"}';
      const known = type === 'member.updated' ? memberId : null;
      await table.add({ webhookId, type, occurredAt: new Date(), memberId: known, payload });
    }
    await database.execute(
      "update webhook_events set state = 'dead', attempts = 12, last_error = 'TypeError' where webhook_id = 'msg_a'",
    );
    const dead = JSON.parse((await run('list', '--state', 'dead', '--json')).stdout) as object[];
    assert.equal(dead.length, 1);
    assert.partialDeepStrictEqual(dead[0], {
      webhook_id: 'msg_a',
      state: 'dead',
      member_id: memberId,
      attempts: 12,
      last_error: 'TypeError',
    });
    const all = (await run('list')).stdout;
    assert.match(all, /^ignored .*account\.merged .*msg_b\ndead .*TypeError +msg_a$/m);
    assert.doesNotMatch(all, /ines\.marin/);

    assert.match((await run('replay', 'msg_a')).stdout, /will process webhook msg_a again/);
    const waiting = JSON.parse((await run('list', '--state', 'received', '--json')).stdout) as object[];
    assert.partialDeepStrictEqual(waiting, [{ webhook_id: 'msg_a', attempts: 0 }]);
  });

  test('refuses in words what is not there, is ignored, or is no state', async () => {
    const unknown = await run('replay', 'msg_none');
    assert.deepEqual([unknown.code, unknown.stderr], [1, "error: There's no webhook msg_none.\n"]);
    const ignored = await run('replay', 'msg_b');
    assert.equal(ignored.code, 1);
    assert.match(ignored.stderr, /account\.merged, .* ignores/);
    const state = await run('list', '--state', 'lost');
    assert.equal(state.code, 2);
    assert.match(state.stderr, /received, processed, ignored, dead/);
  });
});
