import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { lockDataDir } from '../../src/platform/base/files.ts';
import { migrate } from '../../src/platform/store/migrate.ts';
import { openPglite } from '../../src/platform/store/pglite.ts';
import { codeBlocks, readPage } from '../docs/pages.ts';
import { CommandLine } from '../support/command-line.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { accept, readHandoff, untilHandoff } from '../support/handoffs.ts';
import { copyEmptyDatabase } from '../support/pglite.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';
import { newReservation } from '../support/reservations.ts';
import { firstWebhookSecret, memberEvent, signedRequest, webhookPath } from '../support/webhooks.ts';

const postgres = await startPostgres();
const redis = postgres && (await startRedis());
after(async () => {
  await redis?.stop();
  await postgres?.stop();
});

const refusal = { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'no' };
const withoutNumbers = (text: string) => text.replaceAll(/[\da-f]{8}-[\da-f-]{27}|\d+/g, 'N').trim();

const commands = new CommandLine();
after(() => commands.stop());

/** Runs `handoff member forget`. */
function forget(env: NodeJS.ProcessEnv, ...args: string[]) {
  return commands.run(['member', 'forget', ...args], { env, cwd: env['DATA_DIR'] });
}

describe('handoff member forget', { skip: !redis && 'no PostgreSQL or no Redis' }, () => {
  let gateway: TestGateway;
  let env: NodeJS.ProcessEnv;
  let secret: string;
  let memberIds: string[];
  /** In whatever is stored of the member. */
  const marks = ['Inés', 'Marín', 'ines@example.com', '+12025550143', 'Casa Olivo', 'request-7142'];

  before(async () => {
    const stores = { DATABASE_URL: postgres?.url, REDIS_URL: redis?.url };
    gateway = await startGateway(stores);
    env = { ...stores, DATA_DIR: gateway.dataDir };
    secret = await firstWebhookSecret(gateway);
    memberIds = (await gateway.org.records('Contact')).map((record) => String(record['External_Id__c']));
  });
  after(() => gateway.stop());

  const post = (path: string, body: object, key: string = randomUUID()) =>
    gateway.request(path, { body, headers: { 'idempotency-key': key } });
  const newQuote = (memberId: string) => ({
    ...{ trip_id: randomUUID(), member_id: memberId, name: 'Casa Olivo', source: 'dining' },
    details: { request: 'request-7142' },
  });
  const make = async (path: string, body: object, key?: string) =>
    (await (await post(path, body, key)).json()) as { id: string; status: string };
  const sendWebhook = (event: object) => gateway.request(webhookPath, signedRequest(secret, event));
  /** Of those that are finished, these alone keep their body. */
  async function addDeadWebhook(memberId: string, data: object = {}): Promise<void> {
    const client = new Client({ connectionString: postgres?.url as string });
    await client.connect();
    await client.query(
      `insert into webhook_events (webhook_id, type, event_at, member_id, payload, state, due_at, received_at, finished_at)
        values ($1, 'member.updated', now(), $2, $3, 'dead', now(), now(), now())`,
      [`msg_${randomUUID()}`, memberId, JSON.stringify(data)],
    );
    await client.end();
  }
  const forgetJson = async (memberId: string) => {
    const { code, stdout, stderr } = await forget(env, memberId, '--json');
    assert.equal(stderr, '');
    return { code, ...JSON.parse(stdout) };
  };

  /** Names of tables that hold a text, and keys of Redis that do. */
  async function storesWith(texts: readonly string[]): Promise<string[]> {
    const client = new Client({ connectionString: postgres?.url as string });
    const cache = new Redis(redis?.url as string);
    await client.connect();
    try {
      const { rows: tables } = await client.query<{ name: string }>(
        `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('public', 'pgboss')`,
      );
      assert.ok(tables.length > 6);
      const found: string[] = [];
      for (const { name } of tables) {
        const query = `select 1 from ${name} t where t::text like any ($1) limit 1`;
        const { rows } = await client.query(query, [texts.map((text) => `%${text}%`)]);
        if (rows.length > 0) found.push(name);
      }
      for (const key of await cache.keys('member:*')) {
        const value = (await cache.get(key)) ?? '';
        if (texts.some((text) => value.includes(text))) found.push('redis');
      }
      return found.sort();
    } finally {
      await client.end();
      cache.disconnect();
    }
  }

  test('names a hand-off that waits, and erases nothing of it', async () => {
    const memberId = memberIds.at(-1) ?? '';
    const rule = await gateway.org.arm({ match: { operation: 'create' }, effect: { kind: 'down' } });
    const waiting = await accept(gateway, { member_id: memberId });
    const { code, handoffs, waiting_handoffs } = await forgetJson(memberId);
    assert.deepEqual([code, handoffs, waiting_handoffs], [1, [], [waiting]]);
    assert.equal((await gateway.request(`/v1/handoffs/${waiting}`, { method: 'DELETE' })).status, 204);
    await rule.remove();
    assert.deepEqual((await forgetJson(memberId)).waiting_handoffs, []);
    // The gateway has noticed that the CRM was down, and asks it again after a pause.
    await eventually(async () => assert.equal((await gateway.request('/v1/quotes')).status, 200));
  });

  test('erases one member from every table and from Redis, and leaves the others', async () => {
    const [memberId = '', otherId = ''] = memberIds;
    const otherKey = randomUUID();
    const quote = await make('/v1/quotes', newQuote(memberId));
    const otherBody = { ...newQuote(otherId), name: 'Hotel Miramar', details: { request: 'none' } };
    const other = await (await post('/v1/quotes', otherBody, otherKey)).text();
    const order = { ...newReservation(memberId), details: { request: 'request-7142' } };
    const reservation = await make('/v1/reservations', order);
    assert.equal(reservation.status, 'confirmed');
    const data = { external_id: memberId.toUpperCase(), last_name: 'Marín' };
    assert.equal((await sendWebhook(memberEvent(memberId, { data }))).status, 202);
    await addDeadWebhook(memberId, data);
    await eventually(async () => assert.ok((await storesWith([',received,'])).length <= 0));
    const rule = await gateway.org.arm({ match: { operation: 'create' }, effect: refusal });
    const result = { name: 'Casa Olivo', source: 'x', details: { request: 'request-7142' } };
    const failed = await accept(gateway, { member_id: memberId, result });
    await untilHandoff(gateway, failed, ({ status }) => status === 'failed');
    await rule.remove();
    const member = (await (await gateway.request(`/v1/members/${memberId}`)).json()) as { email: string };
    await gateway.request(`/v1/members/${otherId}`);
    const found = [...marks, member.email];
    const names = ['events', 'handoffs', 'idempotency_claims', 'reservations', 'webhook_events'];
    assert.deepEqual(await storesWith(found), [...names.map((name) => `public.${name}`), 'redis']);

    const { stdout, code } = await forget(env, memberId.toUpperCase(), '--json');
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(stdout), {
      ...{ member_id: memberId, cached_members: 1, stored_answers: 2, webhooks: 1, events: 1 },
      copied_records: 0,
      ...{ reservations: [reservation.id], not_erased: [], failed: [] },
      ...{ handoffs: [failed], waiting_handoffs: [] },
    });
    assert.deepEqual(await storesWith(found), []);
    const { latest_attempts } = await readHandoff(gateway, failed);
    const problem = { code: 'crm_rejected', detail: 'The CRM refused the record.' };
    assert.deepEqual(latest_attempts?.[0]?.problem, problem);

    const replay = await post('/v1/quotes', otherBody, otherKey);
    assert.deepEqual([replay.status, await replay.text()], [201, other]);
    const shown = await gateway.request(`/v1/reservations/${reservation.id}`);
    const { erased_at, ...read } = (await shown.json()) as { erased_at: string };
    assert.ok(erased_at);
    assert.deepEqual(read, { ...reservation, name: '(erased)' });
    assert.equal((await gateway.request(`/v1/quotes/${quote.id}`)).status, 200);

    const { stdout: nothing } = await forget(env, memberId);
    assert.match(nothing, /^Member [\w-]+ has no data to erase\./);
  });

  test('a repeat of a request whose answer was erased is refused, and not carried out', async () => {
    const [, , memberId = ''] = memberIds;
    const [key, body] = [randomUUID(), newQuote(memberId)];
    const { id } = await make('/v1/quotes', body, key);
    const { stdout } = await forget(env, memberId);
    const [, sample = ''] = codeBlocks(readPage('docs/data-protection.md')).map(({ text }) => text);
    assert.match(stdout, /^stored answers +1$/m);
    assert.equal(withoutNumbers(stdout), withoutNumbers(sample));
    const repeat = await post('/v1/quotes', body, key);
    assert.equal(repeat.status, 409);
    const problem = (await repeat.json()) as { code: string; detail: string };
    assert.equal(problem.code, 'conflict');
    assert.ok(problem.detail.includes(`answered 201`) && problem.detail.includes(`/v1/quotes/${id}`));
    const made = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
    assert.equal(made.length, 1);
  });

  test('names a reservation that is not finished, leaves it, and erases it afterwards', async () => {
    const [, , , memberId = ''] = memberIds;
    const rule = await gateway.org.arm({
      match: { object: 'Booking__c', operation: 'update' },
      effect: refusal,
    });
    const { id } = await make('/v1/reservations', newReservation(memberId));
    await rule.remove();
    const { code, reservations, not_erased } = await forgetJson(memberId);
    assert.deepEqual([code, reservations], [1, []]);
    assert.deepEqual(not_erased, [{ id, status: 'needs_attention', state: 'writing_outcome' }]);
    assert.match((await forget(env, memberId)).stdout, new RegExp(`^Kept some data because .*${id}`, 'm'));
    assert.deepEqual(await storesWith(['Inés']), ['public.reservations']);

    const headers = { 'idempotency-key': randomUUID() };
    const cancelled = await gateway.request(`/v1/reservations/${id}`, { method: 'DELETE', headers });
    assert.equal(cancelled.status, 204);
    assert.deepEqual((await forgetJson(memberId)).reservations, [id]);
    assert.deepEqual(await storesWith(marks), []);
  });

  test('of a member that nobody knows nothing is found; what is no UUID is refused', async () => {
    const unknown = await forgetJson(randomUUID());
    assert.partialDeepStrictEqual(unknown, { code: 0, cached_members: 0, stored_answers: 0, webhooks: 0 });
    const { code, stderr } = await forget(env, 'marin');
    assert.equal(code, 2);
    assert.match(stderr, /"marin" isn't an External ID\. Members have a UUID/);
  });

  test('a part that fails is named, and the others are done', async (t) => {
    const [memberId = ''] = memberIds;
    const unavailable = { ...env, REDIS_URL: 'redis://127.0.0.1:1' };
    await make('/v1/quotes', newQuote(memberId));
    const { code, stdout } = await forget(unavailable, memberId, '--json');
    const { failed, ...done } = JSON.parse(stdout);
    assert.equal(code, 1);
    assert.partialDeepStrictEqual(done, { cached_members: null, stored_answers: 1, webhooks: 0 });
    assert.deepEqual(
      failed.map(({ part }: { part: string }) => part),
      ['cached_members'],
    );
    assert.match((await forget(unavailable, memberId)).stdout, /^Couldn't erase cached members: .*Redis/m);

    const database = new Client({ connectionString: postgres?.url as string });
    await database.connect();
    t.after(async () => {
      await database.query('alter table idempotency_claims rename column renamed to response_body');
      await database.query('alter table reservations rename column renamed to state').catch(() => {});
      await database.end();
    });
    await database.query('alter table idempotency_claims rename column response_body to renamed');
    await addDeadWebhook(memberId);
    const partly = await forgetJson(memberId);
    assert.partialDeepStrictEqual(partly, { code: 1, stored_answers: null, webhooks: 1, reservations: [] });
    assert.partialDeepStrictEqual(partly.failed, [{ part: 'stored_answers' }]);
    await database.query('alter table reservations rename column state to renamed');
    const lists = await forgetJson(memberId);
    assert.partialDeepStrictEqual(lists, { reservations: null, not_erased: [], waiting_handoffs: [] });
  });
});

test('a command that needs the tables as they are names the schema version that it found', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'handoff-older-'));
  t.after(async () => {
    await rm(dataDir, { recursive: true, maxRetries: 5 });
  });
  const { code, stderr } = await commands.run(['handoff', 'list'], { env: { DATA_DIR: dataDir } });
  assert.equal(code, 1);
  assert.match(stderr, /The database has schema version 0, (\d+) behind .* version \1\. Run/);
});

test('handoff member forget opens the embedded database where no process has it', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'handoff-member-'));
  t.after(async () => {
    await rm(dataDir, { recursive: true, maxRetries: 5 });
  });
  await copyEmptyDatabase(join(dataDir, 'database'));
  const database = await openPglite(join(dataDir, 'database'));
  await migrate(database);
  await database.close();
  const lock = await lockDataDir(dataDir, 'handoff serve');
  const held = await forget({ DATA_DIR: dataDir }, randomUUID());
  assert.equal(held.code, 1);
  assert.match(held.stderr, /handoff serve/);
  await lock.release();
  const { code, stdout } = await forget({ DATA_DIR: dataDir }, randomUUID());
  assert.equal(code, 0);
  assert.match(stdout, /no data to erase/);
});
