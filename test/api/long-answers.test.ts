import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { ClaimsTable } from '../../src/api/idempotency/claims-table.ts';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { recordLog } from '../support/log.ts';
import { type PostgresDatabase, startPostgres } from '../support/postgres.ts';
import { recordFor } from '../support/records.ts';

const postgres = await startPostgres();

/** Different at each position, as real data are, and not only ASCII. */
const details = {
  rooms: Array.from({ length: 1500 }, (_, n) => ({
    rate_key: `20270412|W|1|${n}|DBT.SU|${randomUUID()}`,
    net: `${n}.40`,
    name: 'Habitación doble, Meerblick 海景',
  })),
};

describe('long answers to keyed writes', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  let client: Client;
  const sent: { path: string; method: string; body: string; key: string; text: string }[] = [];

  before(async () => {
    const { url } = postgres as PostgresDatabase;
    gateway = await startGateway({ DATABASE_URL: url });
    client = new Client({ connectionString: url });
    await client.connect();
    const { id } = JSON.parse(await write('POST', '/v1/quotes', newQuote())) as { id: string };
    for (let n = 0; n < 5; n++) await write('PATCH', `/v1/quotes/${id}`, { name: `Miramar ${n}` });
  });
  after(async () => {
    await client.end();
    await gateway.stop();
    await postgres?.stop();
  });

  const newQuote = () => recordFor(gateway.org.memberId, { details });

  async function write(method: string, path: string, content: object): Promise<string> {
    const request = { path, method, body: JSON.stringify(content), key: randomUUID() };
    const response = await send(request);
    assert.ok(response.ok, `${response.status}`);
    const text = await response.text();
    sent.push({ ...request, text });
    return text;
  }

  const send = ({ path, method, body, key }: { path: string; method: string; body: string; key: string }) =>
    gateway.request(path, { method, body, headers: { 'idempotency-key': key } });

  async function assertReplays(): Promise<void> {
    for (const request of sent) {
      const response = await send(request);
      assert.equal(response.headers.get('idempotent-replayed'), 'true');
      assert.equal(await response.text(), request.text);
    }
  }

  test('are replayed byte for byte', assertReplays);

  test('take a fraction of their size in the database, and the metric counts it', async () => {
    const { rows } = await client.query<{ bytes: string; compressed: string; text: string | null }>(`
      select sum(pg_column_size(response_compressed)) as bytes, sum(octet_length(response_compressed)) as compressed,
        max(response_body) as text
      from idempotency_claims`);
    const plain = sent.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    assert.ok(Number(rows[0]?.bytes) < plain / 2, `${rows[0]?.bytes} of ${plain} bytes`);
    assert.equal(rows[0]?.text, null);
    const metrics = await gateway.metrics();
    const [, counted] = /^handoff_idempotency_stored_bytes_total (\d+)$/m.exec(metrics) ?? [];
    assert.equal(counted, rows[0]?.compressed);
  });

  test('that an older program has stored as text are replayed, too', async () => {
    for (const { key, text } of sent)
      await client.query(
        'update idempotency_claims set response_compressed = null, response_body = $2 where key = $1',
        [key, text],
      );
    await assertReplays();
  });

  test('are erased with the data of a member that they name', async () => {
    const again = await write('POST', '/v1/quotes', newQuote());
    const database = openPostgres({ url: (postgres as PostgresDatabase).url, log: recordLog().log });
    try {
      const claims = new ClaimsTable(database, 24);
      assert.equal(await claims.eraseMember(randomUUID()), 0);
      assert.equal(await claims.eraseMember(gateway.org.memberId), sent.length);
      assert.equal(await claims.eraseMember(gateway.org.memberId), 0);
    } finally {
      await database.close();
    }
    const { rows } = await client.query(
      'select from idempotency_claims where response_compressed is not null',
    );
    assert.equal(rows.length, 0);
    const last = sent.at(-1);
    assert.ok(last !== undefined && last.text === again);
    assert.equal((await send(last)).status, 409);
  });
});
