import { Client } from 'pg';
import { untilCopied } from './copy.ts';
import { type Gateway, type Harness, readCredentials } from './harness.ts';
import { fillOrg } from './org-control.ts';
import type { Part } from './part.ts';
import { gatewayRead, gatewayWrite } from './requests.ts';
import { interleave, loadCells, type Measured, measure, rates } from './rounds.ts';
import { ratio, spreadOfPairs } from './spread.ts';

const clients = 64;
const fromCopy = { 'cache-control': 'max-age=600' };
const testConsumers = 1000;
const recordsOfEach = 1000;
/** The first member of every world. */
const memberId = '8673c1d4-1752-87ae-aa59-227b6cc68c14';

/** Reads of a test consumer beside reads from the copy; live reads and writes beside many worlds, over the same without. */
export const testKeys: Part = async ({ harness, rounds, seconds }) => {
  const empty = await startWithCopy(harness);
  const full = await startWithCopy(harness);
  await fillWorlds(full.databaseUrl);
  const test = await makeWorld(empty.gateway);
  const run = (of: Gateway, next: (n: number) => string) => () =>
    measure({ urls: [of.url], clients, seconds, next }, { gateway: of.program });
  const fromCopyOf = ({ gateway, quoteIds }: typeof empty) => run(gateway, copiedRead(gateway, quoteIds));
  const writesOf = ({ gateway, memberId: own }: typeof empty) => run(gateway, gatewayWrite(gateway, own));
  const results = await interleave(rounds, {
    test: run(test.gateway, gatewayRead(test.gateway, test.quoteIds)),
    copy: fromCopyOf(empty),
    copyBesideWorlds: fromCopyOf(full),
    writes: writesOf(empty),
    writesBesideWorlds: writesOf(full),
  });
  const cpuOf = (measured: Measured[]) => measured.map(({ cpu }) => cpu['gateway'] ?? Number.NaN);
  const row = (requests: string, measured: Measured[], others = {}) => ({
    ...{ requests, ...others },
    ...loadCells(measured),
  });
  const cpuOverCopy = spreadOfPairs(cpuOf(results.test), cpuOf(results.copy), ratio);
  const readsBeside = spreadOfPairs(rates(results.copyBesideWorlds), rates(results.copy), ratio);
  const writesBeside = spreadOfPairs(rates(results.writesBesideWorlds), rates(results.writes), ratio);
  const notes = [
    `Single quotes, ${clients} clients, one process, PostgreSQL. Worlds: ${testConsumers} test consumers with ${recordsOfEach} quotes each, in the same database.`,
  ];
  const rows = [
    row('reads of a test consumer', results.test, { ratio: cpuOverCopy }),
    row('live reads from the copy', results.copy),
    row('the same, beside the worlds', results.copyBesideWorlds, { ratio: readsBeside }),
    row('live keyed writes', results.writes),
    row('the same, beside the worlds', results.writesBesideWorlds, { ratio: writesBeside }),
  ];
  return {
    tables: [{ title: 'Test keys', notes, rows }],
    figures: {
      testReadsOverCopy: cpuOverCopy,
      readsBesideWorlds: readsBeside,
      writesBesideWorlds: writesBeside,
    },
  };
};

async function startWithCopy(harness: Harness) {
  const org = await harness.startOrg();
  const { quoteIds, memberId: own } = await fillOrg(org, 1000);
  const database = await harness.newDatabase();
  const env = { ...database, COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '60', RATE_LIMIT_PER_MINUTE: '0' };
  const gateway = await harness.startGateway({ crm: org, env });
  await untilCopied(gateway, quoteIds);
  return { gateway, quoteIds, memberId: own, databaseUrl: database['DATABASE_URL'] as string };
}

function copiedRead(gateway: Gateway, quoteIds: string[]) {
  return gatewayRead({ ...gateway, headers: { ...gateway.headers, ...fromCopy } }, quoteIds);
}

/** A test consumer with as many quotes as the org has. */
async function makeWorld(gateway: Gateway): Promise<{ gateway: Gateway; quoteIds: string[] }> {
  const permissions = [{ resource: 'quotes', actions: ['read', 'write'] }];
  const admin = { ...gateway, headers: readCredentials(gateway.dataDir, 'admin') };
  const made = await post(admin, '/v1/admin/consumers', { name: 'Bench', mode: 'test', permissions });
  const { apiKey, apiSecret } = made as { apiKey: string; apiSecret: string };
  const own = { ...gateway, headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret } };
  const quoteIds: string[] = [];
  const quote = {
    trip_id: memberId,
    member_id: memberId,
    name: 'Hotel Miramar',
    source: 'bench',
    details: {},
  };
  while (quoteIds.length < 1000) quoteIds.push(((await post(own, '/v1/quotes', quote)) as { id: string }).id);
  return { gateway: own, quoteIds };
}

async function post({ url, headers }: Gateway, path: string, body: object): Promise<unknown> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** As these consumers would have made them one by one. */
async function fillWorlds(databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const consumer = `'con_test00' || lpad(c::text, 10, '0')`;
  await client.query(`
    insert into test_worlds (consumer_id, records)
      select ${consumer}, ${recordsOfEach} from generate_series(1, ${testConsumers}) c;
    insert into test_records (consumer_id, resource, external_id, created_at, updated_at, content, filters)
      select ${consumer}, 'quote', gen_random_uuid(), now(), now(),
        '{"name":"Hotel Miramar","source":"bench","details":"{}","status":"created"}', '{"status":"created"}'
      from generate_series(1, ${testConsumers}) c, generate_series(1, ${recordsOfEach}) n;
    analyze test_records`);
  await client.end();
}
