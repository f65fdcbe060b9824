/**
 * Keyed writes on each database, against the simulated org in a process of its own that answers at once:
 *
 *     node bench/keyed-writes.ts
 *
 * Prints, for PGlite and (with DATABASE_URL) PostgreSQL, writes a second from 64 clients, and what the gateway adds to
 * the CRM's own time when one client writes at a time. The direct write is measured in the same run.
 */
import { spawn } from 'node:child_process';
import { createHash, generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { SignJWT } from 'jose';
import { type LoadResult, load } from './load.ts';

const root = new URL('../', import.meta.url).pathname;
const seconds = Number(process.env['SECONDS'] ?? 5);
const clientId = 'bench';
const username = 'bench@example.com';

const dir = mkdtempSync(join(tmpdir(), 'handoff-bench-'));
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const publicPem = join(dir, 'public.pem');
writeFileSync(publicPem, publicKey.export({ type: 'spki', format: 'pem' }));

const children: ReturnType<typeof spawn>[] = [];
try {
  const orgUrl = await startOrg();
  const memberId = await makeMember(orgUrl);
  const token = await directToken(orgUrl);
  const direct = (clients: number) =>
    load({
      url: orgUrl,
      clients,
      seconds,
      next: () => ({
        method: 'POST',
        path: '/services/data/v68.0/sobjects/Quote__c',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({
          External_Id__c: randomUUID(),
          Member__r: { External_Id__c: memberId },
          Name__c: 'Hotel',
          Source__c: 'bench',
          Details__c: '{}',
        }),
      }),
    });
  const rows: Record<string, unknown>[] = [];
  const databases = { PGlite: undefined, PostgreSQL: process.env['DATABASE_URL'] };
  for (const [name, databaseUrl] of Object.entries(databases)) {
    if (name === 'PostgreSQL' && !databaseUrl) continue;
    const gateway = await startGateway(name, orgUrl, databaseUrl);
    const write = (path: string, clients: number) =>
      load({ ...gateway.load(path, memberId), clients, seconds });
    await write('/v1/quotes', 16);
    const idleDirect = await direct(1);
    const idle = await write('/v1/quotes', 1);
    const idleHandoff = await write('/api/v1/handoff', 1);
    rows.push(row(name, 'POST /v1/quotes', await write('/v1/quotes', 64), idle, idleDirect));
    rows.push(row(name, 'POST /api/v1/handoff', await write('/api/v1/handoff', 64), idleHandoff, idleDirect));
    gateway.stop();
  }
  console.table(rows);
} finally {
  for (const child of children) child.kill('SIGKILL');
  rmSync(dir, { recursive: true, force: true });
}

function row(database: string, request: string, busy: LoadResult, idle: LoadResult, direct: LoadResult) {
  return {
    database,
    request,
    'a second': Math.round(busy.rate),
    'p50 ms': round(busy.p50),
    'p99 ms': round(busy.p99),
    'idle p50 ms': round(idle.p50),
    'direct p50 ms': round(direct.p50),
    statuses: JSON.stringify(busy.statuses),
  };
}

interface Credentials {
  console: { apiKey: string; apiSecret: string };
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100;
}

async function startOrg(): Promise<string> {
  const args = ['--client-id', clientId, '--username', username, '--public-key', publicPem];
  const line = await firstLine(start('simulators/salesforce/main.ts', args, {}), /http:\/\/\S+/);
  return line;
}

async function startGateway(name: string, orgUrl: string, databaseUrl: string | undefined) {
  const dataDir = join(dir, name);
  mkdirSync(join(dataDir, 'secrets/crm/dev'), { recursive: true });
  writeFileSync(
    join(dataDir, 'secrets/crm/dev/private-key'),
    privateKey.export({ type: 'pkcs8', format: 'pem' }),
  );
  const child = start('src/main.ts', [], {
    DATA_DIR: dataDir,
    PORT: '0',
    METRICS_PORT: '0',
    RATE_LIMIT_PER_MINUTE: '0',
    CRM_LOGIN_URL: orgUrl,
    CRM_CLIENT_ID: clientId,
    CRM_USERNAME: username,
    ...(databaseUrl && { DATABASE_URL: databaseUrl }),
  });
  const url = await firstLine(child, /"url":"(http:[^"]+)".*"msg":"ready"/);
  const credentials = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Credentials;
  const { apiKey, apiSecret } = credentials.console;
  return {
    stop: () => child.kill('SIGKILL'),
    load: (path: string, memberId: string) => ({
      url,
      next: () => ({
        method: 'POST' as const,
        path,
        headers: {
          'content-type': 'application/json',
          'x-api-key': apiKey,
          'x-api-secret': apiSecret,
          'idempotency-key': randomUUID(),
        },
        body: bodyFor(path, memberId),
      }),
    }),
  };
}

function bodyFor(path: string, memberId: string): string {
  const record = { name: 'Hotel', source: 'bench', details: {} };
  const ids = { trip_id: randomUUID(), member_id: memberId };
  return JSON.stringify(
    path === '/v1/quotes' ? { ...ids, ...record } : { type: 'quote', ...ids, result: record },
  );
}

function start(program: string, args: string[], env: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, [join(root, program), ...args], {
    cwd: dir,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  return child;
}

/** Waits for a line of the output that matches, and returns what the pattern captures. */
async function firstLine(child: ReturnType<typeof start>, pattern: RegExp): Promise<string> {
  for await (const line of createInterface({ input: child.stdout })) {
    const match = pattern.exec(line);
    if (match) {
      child.stdout.resume();
      return match[1] ?? match[0];
    }
  }
  await once(child, 'exit');
  throw new Error('a process ended before it was ready');
}

async function makeMember(orgUrl: string): Promise<string> {
  const id = randomUUID();
  await fetch(`${orgUrl}/simulator/records/Contact`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify([{ LastName: 'Bench', External_Id__c: id }]),
  });
  return id;
}

async function directToken(orgUrl: string): Promise<string> {
  const assertion = await new SignJWT()
    .setProtectedHeader({ alg: 'RS256' })
    .setIssuer(clientId)
    .setSubject(username)
    .setAudience(orgUrl)
    .setExpirationTime('2m')
    .setJti(createHash('sha256').update(orgUrl).digest('hex'))
    .sign(privateKey);
  const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  const response = await fetch(`${orgUrl}/services/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: grant, assertion }),
  });
  return ((await response.json()) as { access_token: string }).access_token;
}
