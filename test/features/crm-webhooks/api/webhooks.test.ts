import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Events, openEvents } from '../../../support/events.ts';
import { eventually } from '../../../support/eventually.ts';
import { startGateway, type TestGateway, useGateway } from '../../../support/gateway.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/tcp-proxy.ts';
import { firstWebhookSecret, memberEvent, signedRequest, webhookPath } from '../../../support/webhooks.ts';

const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
const statusOf = async (response: Response) => [response.status, await response.json()];

async function metric({ operationsUrl }: TestGateway, line: string): Promise<number> {
  const text = await (await fetch(`${operationsUrl}/metrics`)).text();
  const found = text.split('\n').find((one) => one.startsWith(`${line} `));
  return Number(found?.split(' ')[1] ?? 0);
}

describe('a webhook', () => {
  const gateway = useGateway();
  let secret: string;
  let memberId: string;

  before(async () => {
    secret = await firstWebhookSecret(gateway);
    memberId = gateway.org.memberId;
  });

  const post = (content: object | string, signing = {}) =>
    gateway.request(webhookPath, signedRequest(secret, content, signing));

  test('that is signed is accepted, and its repeats are reported as such', async () => {
    const id = `msg_${randomUUID()}`;
    const event = memberEvent(memberId);
    const response = await post(event, { id });
    assert.equal(response.headers.get('cache-control'), 'no-store');
    assert.deepEqual(await statusOf(response), [202, { status: 'accepted' }]);
    assert.deepEqual(await statusOf(await post(event, { id })), [202, { status: 'duplicate' }]);
    const other = { id, at: new Date(Date.now() - 60_000) };
    assert.deepEqual(await statusOf(await post({ ...event, type: 'member.deleted' }, other)), [
      202,
      { status: 'duplicate' },
    ]);
  });

  test('needs no credentials, and ignores an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'none' };
    for (let n = 0; n < 2; n++) {
      assert.deepEqual(await statusOf(await post(memberEvent(memberId), { headers })), [
        202,
        { status: 'accepted' },
      ]);
    }
  });

  test('of a type that is not known is kept, whatever it is about', async () => {
    const before = await metric(gateway, 'handoff_webhooks_total{result="ignored"}');
    for (const data of [{}, { external_id: 'account-7' }, { deep: [1, { a: null }] }]) {
      const response = await post({ ...memberEvent(memberId), type: 'account.merged', data });
      assert.deepEqual(await statusOf(response), [202, { status: 'accepted' }]);
    }
    assert.equal(await metric(gateway, 'handoff_webhooks_total{result="ignored"}'), before + 3);
  });

  test('without a right signature is refused, whatever its body', async () => {
    const event = memberEvent(memberId);
    const before = await metric(gateway, 'handoff_webhooks_total{result="refused"}');
    const refused = [
      { as: null, body: JSON.stringify(event) },
      signedRequest(newSecret(), event),
      signedRequest(newSecret(), '{'),
      signedRequest(newSecret(), { unknown: true }),
      signedRequest(newSecret(), ''),
      signedRequest(secret, event, { at: new Date(Date.now() - 302_000) }),
      signedRequest(secret, event, { at: new Date(Date.now() + 600_000) }),
      { ...signedRequest(secret, event), body: JSON.stringify(memberEvent(randomUUID())) },
      { ...signedRequest(secret, event), body: `${JSON.stringify(event)} ` },
      signedRequest(secret, event, { headers: { 'webhook-id': 'msg_other' } }),
    ];
    const answers = new Set<string>();
    for (const request of refused) {
      const response = await gateway.request(webhookPath, { method: 'POST', ...request });
      const problem = await assertProblem(response, 401, 'invalid_credentials');
      answers.add(JSON.stringify({ ...problem, request_id: '' }));
      await eventually(() => {
        const lines = gateway.logLines.filter(({ facts }) => facts['request_id'] === problem.request_id);
        assert.deepEqual([lines.length, typeof lines[0]?.facts['reason']], [1, 'string']);
      });
    }
    assert.equal(answers.size, 1);
    const refusals = await metric(gateway, 'handoff_webhooks_total{result="refused"}');
    assert.equal(refusals, before + refused.length);
  });

  test('that is no such payload is refused by its body once the signature is right', async () => {
    const event = memberEvent(memberId);
    for (const body of ['{', '', 'null ]', '\u0000'])
      await assertProblem(await post(body), 400, 'malformed_json');
    const faulty: [object | string, ...string[]][] = [
      ['[]', '#'],
      [{}, '#/type', '#/timestamp', '#/data'],
      [{ ...event, type: '' }, '#/type'],
      [{ ...event, type: 'member updated' }, '#/type'],
      [{ ...event, timestamp: 'yesterday' }, '#/timestamp'],
      [{ ...event, timestamp: '0000-01-01T00:00:00Z' }, '#/timestamp'],
      [{ ...event, timestamp: '2026-06-30T23:59:60Z' }, '#/timestamp'],
      [{ ...event, data: [] }, '#/data'],
      [{ ...event, data: {} }, '#/data/external_id'],
      [{ ...event, data: { external_id: '0035g00000XyZ12' } }, '#/data/external_id'],
      [{ ...event, data: { external_id: 7 } }, '#/data/external_id'],
      [{ ...event, more: 1 }, '#/more'],
    ];
    for (const [content, ...pointers] of faulty)
      await assertProblem(await post(content), 400, 'invalid_request', ...pointers);
  });

  test('is verified by the bytes that came, not by what they mean', async () => {
    const text = `{ "data" : {"external_id":"${memberId.toUpperCase()}", "name":"Zoë 🧭", "n": 1.0e2},\n"timestamp":"2027-01-01T00:00:00+01:00" , "type":"member.created"}`;
    assert.equal((await post(text)).status, 202);
    const bytes = Buffer.from(text, 'latin1');
    const request = signedRequest(secret, text);
    const response = await gateway.request(webhookPath, { ...request, body: new Uint8Array(bytes) });
    await assertProblem(response, 401, 'invalid_credentials');
  });

  test('that is too large, or no JSON by its type, is refused before its signature', async () => {
    const large = 'x'.repeat(65_537);
    const tooLarge = await gateway.request(webhookPath, {
      as: null,
      body: large,
      headers: { 'content-type': 'text/plain' },
    });
    const { detail } = await assertProblem(tooLarge, 413, 'payload_too_large');
    assert.match(detail, /65536 bytes/);
    assert.equal(await sendInChunks(gateway, large), 413);
    await assertProblem(
      await gateway.request(webhookPath, { as: null, body: '<a/>', headers: { 'content-type': 'text/xml' } }),
      415,
      'unsupported_media_type',
    );
    const largest = JSON.stringify({ ...memberEvent(memberId), data: { external_id: memberId, note: '' } });
    const padded = largest.replace('"note":""', `"note":"${'x'.repeat(65_536 - largest.length)}"`);
    assert.equal(padded.length, 65_536);
    assert.equal((await post(padded)).status, 202);
  });

  test('may be signed with any of the secrets, and a change of them is seen without a restart', async () => {
    const path = join(gateway.dataDir, 'secrets/webhooks/crm');
    // At once: half written, the file is a change of its own.
    const replace = async (text: string) => {
      await writeFile(`${path}~`, text);
      await rename(`${path}~`, path);
    };
    const next = newSecret();
    const status = async (signer: string) =>
      (await gateway.request(webhookPath, signedRequest(signer, memberEvent(memberId)))).status;
    assert.equal(await status(next), 401);
    await replace(`${next}\n${secret}\n`);
    await eventually(async () => assert.equal(await status(next), 202));
    assert.equal(await status(secret), 202);
    await replace(`${next}\n`);
    await eventually(async () => assert.equal(await status(secret), 401));
    assert.equal(await status(next), 202);
    await rm(path);
    await eventually(async () => assert.equal(await status(next), 401));
    const warnings = gateway.logLines.filter(({ message }) => /there is no webhook secret/.test(message));
    assert.equal(warnings.length, 1);
    await replace(`${secret}\n`);
    await eventually(async () => assert.equal(await status(secret), 202));
    const log = JSON.stringify(gateway.logLines);
    for (const one of [secret, next]) assert.ok(!log.includes(one.slice(6)));
  });
});

/** Without a Content-Length, so that only reading shows how much it is. */
function sendInChunks({ url }: TestGateway, body: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' };
    const outgoing = httpRequest(url + webhookPath, { method: 'POST', headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

describe('the limits of webhooks', () => {
  const gateway = useGateway({ RATE_LIMIT_FAILED_PER_MINUTE: '3', RATE_LIMIT_PER_MINUTE: '30' });
  let secret: string;

  before(async () => {
    secret = await firstWebhookSecret(gateway);
  });

  test('are those of failed authentications for wrong signatures, and never refuse right ones for them', async () => {
    const event = memberEvent(randomUUID());
    const send = (signer: string) => gateway.request(webhookPath, signedRequest(signer, event));
    const statuses: number[] = [];
    for (let n = 0; n < 5; n++) statuses.push((await send(newSecret())).status);
    // A minute may end meanwhile.
    assert.ok(statuses.includes(429), String(statuses));
    assert.equal(statuses[0], 401);
    assert.equal((await send(secret)).status, 202);
  });

  test('hold for right ones too', async () => {
    const responses: Response[] = [];
    for (let n = 0; n < 62; n++) {
      responses.push(await gateway.request(webhookPath, signedRequest(secret, memberEvent(randomUUID()))));
    }
    const refused = responses.find(({ status }) => status === 429);
    assert.ok(refused);
    const { retry_after } = await assertProblem(refused, 429, 'rate_limited');
    assert.ok(retry_after && retry_after >= 1 && retry_after <= 60);
  });
});

const postgres = await usePostgres();

describe('webhooks in PostgreSQL', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  let secret: string;
  let database: TcpProxy;
  let events: Events;

  before(async () => {
    database = await startTcpProxy((postgres as PostgresDatabase).url);
    gateway = await startGateway({ DATABASE_URL: database.url, SHUTDOWN_SECONDS: '1' });
    secret = await firstWebhookSecret(gateway);
    events = await openEvents((postgres as PostgresDatabase).url);
  });
  after(async () => {
    await gateway.stop();
    await events.close();
    await database.close();
  });

  const post = (content: object, signing = {}) =>
    gateway.request(webhookPath, signedRequest(secret, content, signing));

  test('are stored with their state, and processed once', async () => {
    const memberId = randomUUID();
    const id = `msg_${randomUUID()}`;
    for (let n = 0; n < 3; n++) await post(memberEvent(memberId.toUpperCase()), { id });
    const ignored = `msg_${randomUUID()}`;
    await post({ ...memberEvent(memberId), type: 'member.merged' }, { id: ignored });
    const stored = await eventually(async () => {
      const all = await events.all();
      assert.ok(!all.some(({ state }) => state === 'received'));
      return all;
    });
    assert.deepEqual(
      stored.map(({ webhook_id, member_id, state, attempts }) => [webhook_id, member_id, state, attempts]),
      [
        [id, memberId, 'processed', 1],
        [ignored, null, 'ignored', 0],
      ],
    );
  });

  test('are refused with 503 while it is unavailable, and accepted when they are sent again', async () => {
    const event = memberEvent(randomUUID());
    const id = `msg_${randomUUID()}`;
    await database.cut();
    const response = await post(event, { id });
    const { retry_after } = await assertProblem(response, 503, 'store_unavailable');
    assert.equal(retry_after, 5);
    await assertProblem(
      await gateway.request(webhookPath, signedRequest(newSecret(), event)),
      401,
      'invalid_credentials',
    );
    await database.restore();
    assert.deepEqual(await statusOf(await post(event, { id })), [202, { status: 'accepted' }]);
  });

  test('are duplicates where only the answer of the database was lost', async () => {
    const event = memberEvent(randomUUID());
    const id = `msg_${randomUUID()}`;
    const hold = database.holdAnswers('insert into webhook_events');
    const lost = post(event, { id });
    await hold.hit();
    hold.cut();
    await assertProblem(await lost, 503, 'store_unavailable');
    assert.deepEqual(await statusOf(await post(event, { id })), [202, { status: 'duplicate' }]);
    const find = async () => (await events.all()).filter(({ webhook_id }) => webhook_id === id);
    await eventually(async () => assert.equal((await find())[0]?.state, 'processed'), { everyMs: 10 });
    assert.equal((await find()).length, 1);
  });
});
