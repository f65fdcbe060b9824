import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { type Credentials, startGateway, type TestGateway } from '../../../support/gateway.ts';
import { type PostgresDatabase, usePostgres } from '../../../support/postgres.ts';

const postgres = await usePostgres();

/** Secrets are looked for by their hearts too: a text that only begins with one is a leak all the same. */
function partsOf(secret: string): string[] {
  const lines = secret.split(/\s+/).filter((line) => line.length >= 20 && !line.includes('-----'));
  return lines.map((line) => line.slice(4, 44));
}

/** What stands in the secrets manager: pepper, cursor key, private keys, hashes. */
async function storedSecrets(dir: string): Promise<string[]> {
  const files = await readdir(dir, { recursive: true, withFileTypes: true });
  const texts = await Promise.all(
    files
      // It holds ids, which are no secret.
      .filter((file) => file.isFile() && file.name !== 'revoked-consumers')
      // That of a consumer that was revoked is deleted a little later.
      .map((file) => readFile(join(file.parentPath, file.name), 'utf8').catch(() => '')),
  );
  return texts.flatMap((text) => {
    const hashes = [...text.matchAll(/"hash": "([^"]+)"/g)].map(([, hash = '']) => hash);
    return text.startsWith('{') ? hashes : [text];
  });
}

/** Every row of every table of the database, as text. */
async function dump(url: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema')`,
    );
    const texts: string[] = [];
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select t::text as row from ${name} t`);
      texts.push(name, ...rows.map(({ row }) => row));
    }
    return texts.join('\n');
  } finally {
    await client.end();
  }
}

test('no secret reaches a log line, a metric, an error or the database', {
  skip: !postgres && 'no PostgreSQL',
}, async (t) => {
  const { url } = postgres as PostgresDatabase;
  const gateway = await startGateway({ DATABASE_URL: url });
  const known = new Set<string>();
  const errors: string[] = [];
  t.after(async () => {
    await gateway.stop();
  });
  await useEverything(gateway, known, errors);
  for (const secret of await storedSecrets(join(gateway.dataDir, 'secrets'))) known.add(secret);
  const metrics = await (await fetch(`${gateway.operationsUrl}/metrics`)).text();
  await gateway.request('/v1/admin/auth-attempts', { as: gateway.admin });
  const outputs = {
    log: JSON.stringify(gateway.logLines),
    metrics,
    errors: errors.join('\n'),
    database: await dump(url),
  };
  assert.match(outputs.database, /authentication_attempts[^]*wrong_secret/);
  assert.match(outputs.database, /idempotency_claims/);
  const parts = [...known].flatMap(partsOf);
  assert.ok(parts.length > 30, String(parts.length));
  for (const [name, text] of Object.entries(outputs)) {
    assert.ok(text.length > 100, name);
    const leaked = parts.filter((part) => text.includes(part));
    assert.deepEqual(leaked, [], name);
  }
});

/** Creates, rotates, uses, mistakes and revokes; every secret that was seen goes to `known`, every error to `errors`. */
async function useEverything(gateway: TestGateway, known: Set<string>, errors: string[]): Promise<void> {
  const send = async (path: string, options: Parameters<TestGateway['request']>[1] = {}) => {
    const response = await gateway.request(path, { as: gateway.admin, ...options });
    const text = await response.text();
    if (!response.ok) errors.push(text);
    return text;
  };
  for (const { apiSecret } of [gateway.console, gateway.admin]) known.add(apiSecret);
  const permissions = [{ resource: 'quotes', actions: ['read', 'write'] }];
  const shop = JSON.parse(
    await send('/v1/admin/consumers', {
      body: { name: 'shop', permissions },
      headers: { 'idempotency-key': randomUUID() },
    }),
  ) as Credentials;
  known.add(shop.apiSecret);
  for (let i = 0; i < 3; i++) {
    const pair = JSON.parse(
      await send(`/v1/admin/consumers/${shop.id}/rotate`, {
        method: 'POST',
        headers: { 'idempotency-key': randomUUID() },
      }),
    ) as Credentials;
    known.add(pair.apiSecret);
    const quote = {
      trip_id: randomUUID(),
      member_id: gateway.org.memberId,
      name: 'a',
      source: 'b',
      details: {},
    };
    const headers = { 'idempotency-key': randomUUID() };
    for (const body of [quote, { ...quote, name: '' }, '{'])
      await send('/v1/quotes', { as: pair, body, headers });
    // Mistakes that put a secret where it does not belong: another's key, the wrong header, the path, the query.
    await send('/v1/quotes', { as: { apiKey: gateway.console.apiKey, apiSecret: pair.apiSecret } });
    await send('/v1/quotes', { as: { apiKey: pair.apiSecret, apiSecret: pair.apiKey } });
    await send(`/v1/quotes/${pair.apiSecret}`, { as: null });
    await send(`/nothing/${pair.apiSecret}?key=${pair.apiSecret}`, { as: null });
    await send(`/v1/admin/consumers/${pair.apiSecret}/rotate`, { method: 'POST', as: null });
  }
  await send(`/v1/admin/consumers/${shop.id}`, { method: 'DELETE' });
  await send('/v1/quotes', { as: shop });
}
