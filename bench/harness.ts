import { createPrivateKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SignJWT } from 'jose';
import { Client } from 'pg';
import { startPostgres } from '../test/support/postgres.ts';
import { startRedis } from '../test/support/redis.ts';
import { createProcesses, type Processes, type Program } from './processes.ts';

const clientId = 'bench';
const username = 'bench@example.com';
/** Settings of every gateway. The reader's polls would be counted with the calls of what is measured. */
const common = { PORT: '0', METRICS_PORT: '0', RATE_LIMIT_PER_MINUTE: '0', CHANGES_POLL_SECONDS: '0' };

/** Something that answers like the CRM: the simulated org, or the fast upstream. */
export interface Crm {
  url: string;
  program: Program;
  /** Headers of a client that calls it directly. */
  directHeaders(): Promise<Record<string, string>>;
}

export interface Gateway {
  url: string;
  program: Program;
  dataDir: string;
  /** Headers of a consumer that may do everything; none where another replica has made the first consumers. */
  headers: Record<string, string>;
}

export interface GatewayOptions {
  /** Without one, the org that the gateway brings with it. */
  crm?: Crm;
  env?: NodeJS.ProcessEnv;
  /** Of a gateway that ran before; without it, it is a first start. */
  dataDir?: string;
}

/** Everything that a part of the benchmark may start. What it starts is stopped with it. */
export interface Harness {
  processes: Processes;
  /** The simulated org. It has as many calls a day as anybody wants. */
  startOrg(): Promise<Crm>;
  startUpstream(): Promise<Crm>;
  startGateway(options: GatewayOptions): Promise<Gateway>;
  /** Settings that name a new database; throws where there is no PostgreSQL. */
  newDatabase(): Promise<NodeJS.ProcessEnv>;
  /** Settings that name a new Redis; throws where it is not installed. */
  newRedis(): Promise<NodeJS.ProcessEnv>;
  close(): Promise<void>;
}

/** Adds to `storesUsed` what stores were found, for the report. */
export function createHarness(storesUsed: Set<string>): Harness {
  const processes = createProcesses();
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const publicPem = join(processes.folder, 'public.pem');
  writeFileSync(publicPem, publicKey);
  const stores: { stop(): Promise<void> }[] = [];
  const node = (program: string, args: string[], ready: RegExp, env: NodeJS.ProcessEnv = {}) =>
    processes.start(process.execPath, { args: [pathTo(program), ...args], ready, env });
  const directHeaders = async (url: string) => ({
    authorization: `Bearer ${await directToken(url, privateKey)}`,
  });
  return {
    processes,
    async startOrg() {
      const identity = ['--client-id', clientId, '--username', username, '--public-key', publicPem];
      const args = [...identity, '--daily-limit', '1000000000'];
      const program = await node('simulators/salesforce/main.ts', args, /listening on (\S+)/);
      return { url: program.found, program, directHeaders: () => directHeaders(program.found) };
    },
    async startUpstream() {
      const program = await node('bench/fast-upstream.ts', [], /listening on (\S+)/);
      return { url: program.found, program, directHeaders: async () => ({}) };
    },
    async startGateway({ crm, env = {}, dataDir = join(processes.folder, randomUUID()) }) {
      const keyFolder = join(env['SECRETS_DIR'] ?? join(dataDir, 'secrets'), 'crm/dev');
      mkdirSync(keyFolder, { recursive: true, mode: 0o700 });
      writeFileSync(join(keyFolder, 'private-key'), privateKey, { mode: 0o600 });
      const settings = {
        DATA_DIR: dataDir,
        ...common,
        ...(crm && { CRM_LOGIN_URL: crm.url, CRM_CLIENT_ID: clientId, CRM_USERNAME: username }),
        ...env,
      };
      const program = await node('src/main.ts', [], /"url":"(http:[^"]+)".*"msg":"ready"/, settings);
      return { url: program.found, program, dataDir, headers: readCredentials(dataDir) };
    },
    newDatabase: async () => {
      const database = needed(await startPostgres(), 'PostgreSQL');
      stores.push(database);
      storesUsed.add(await describePostgres(database.url));
      return { DATABASE_URL: database.url };
    },
    newRedis: async () => {
      const redis = needed(await startRedis(), 'Redis');
      stores.push(redis);
      storesUsed.add('Redis');
      return { REDIS_URL: redis.url };
    },
    async close() {
      await processes.close();
      for (const store of stores) await store.stop();
    },
  };
}

export function pathTo(program: string): string {
  return fileURLToPath(new URL(`../${program}`, import.meta.url));
}

function needed<T>(store: T | undefined, name: string): T {
  if (store === undefined) throw new Error(`this part of the benchmark needs ${name}`);
  return store;
}

/** Its version, and whether it waits for the disk: without that, writes are quicker than in production. */
async function describePostgres(url: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const settings = ['server_version', 'fsync', 'synchronous_commit'];
    const { rows } = await client.query(
      `select ${settings.map((name) => `current_setting('${name}') ${name}`).join()}`,
    );
    const { server_version, fsync, synchronous_commit } = rows[0] as Record<string, string>;
    return `PostgreSQL ${server_version}, fsync ${fsync}, synchronous_commit ${synchronous_commit}`;
  } finally {
    await client.end();
  }
}

/** Headers of a consumer that a gateway has made at its first start. */
export function readCredentials(
  dataDir: string,
  name: 'console' | 'admin' = 'console',
): Record<string, string> {
  const file = join(dataDir, 'credentials.json');
  if (!existsSync(file)) return {};
  type Pairs = Record<typeof name, { apiKey: string; apiSecret: string }>;
  const { apiKey, apiSecret } = (JSON.parse(readFileSync(file, 'utf8')) as Pairs)[name];
  return { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
}

async function directToken(orgUrl: string, privateKey: string): Promise<string> {
  const assertion = await new SignJWT()
    .setProtectedHeader({ alg: 'RS256' })
    .setIssuer(clientId)
    .setSubject(username)
    .setAudience(orgUrl)
    .setExpirationTime('2m')
    .setJti(randomUUID())
    .sign(createPrivateKey(privateKey));
  const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  const body = new URLSearchParams({ grant_type: grant, assertion });
  const response = await fetch(`${orgUrl}/services/oauth2/token`, { method: 'POST', body });
  return ((await response.json()) as { access_token: string }).access_token;
}
