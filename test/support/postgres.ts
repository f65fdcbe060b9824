import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, globSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after } from 'node:test';
import { Client } from 'pg';
import { eventually } from './eventually.ts';
import { freePort } from './ports.ts';

export interface PostgresDatabase {
  url: string;
  /** Drops the database, even while others are connected to it. */
  stop(): Promise<void>;
}

export interface PostgresServer {
  /** URL of its database `postgres`, for a user who may make databases. */
  url: string;
  stop(): Promise<void>;
}

/** A server of the test's own, to be killed and started again. */
export interface OwnPostgresServer extends PostgresServer {
  /** Ends it as a crash would: connections break, and it recovers from its log at the next start. */
  crash(): Promise<void>;
  /** Starts it again after a crash, with all that was committed. */
  restart(): Promise<void>;
}

/** Where the global setup of a test run leaves the URL of a server for all test files. */
export const sharedServerVariable = 'HANDOFF_TEST_POSTGRES_URL';

/** Where it leaves the name of a database there that has all tables, to be copied. */
export const templateVariable = 'HANDOFF_TEST_POSTGRES_TEMPLATE';

/**
 * A new database for one test file, without rows, and with `empty` certainly without tables: on the server of
 * DATABASE_URL, else on the one at the usual port, else on one that is started from the installed programs. Undefined
 * where there is none of them; with CI=true that is an error, since a suite that skips itself proves nothing.
 */
export async function startPostgres({ empty = false } = {}): Promise<PostgresDatabase | undefined> {
  const server = await provideServer();
  if (server === undefined) return missing('none is running, and its programs are not installed');
  return createTestDatabase(server, empty ? undefined : process.env[templateVariable]);
}

/** `startPostgres` for a file or a suite, after which it stops. */
export async function usePostgres(): Promise<PostgresDatabase | undefined> {
  const postgres = await startPostgres();
  after(() => postgres?.stop());
  return postgres;
}

/**
 * A new database for a service whose test is about something else: as `startPostgres` makes it, and undefined where
 * there is no PostgreSQL. The embedded database does as well then; it takes several times the work.
 */
export async function databaseOfAnyKind(): Promise<PostgresDatabase | undefined> {
  const server = await provideServer();
  return server && createTestDatabase(server, process.env[templateVariable]);
}

async function createTestDatabase(server: PostgresServer, template?: string): Promise<PostgresDatabase> {
  const database = await createDatabase(server.url, template);
  // A server that serves others too may wait for its disk at each commit; no test makes it crash.
  const name = new URL(database.url).pathname.slice(1);
  await run(server.url, `alter database ${name} set synchronous_commit = off`);
  return database;
}

let ownServer: Promise<PostgresServer | undefined> | undefined;

/** The server that runs, or one for the life of this process. */
async function provideServer(): Promise<PostgresServer | undefined> {
  return (await findPostgresServer()) ?? (await (ownServer ??= startPostgresServer()));
}

/** A new database on a server, as a copy of another one there. Its name is the path of its URL. */
export async function createDatabase(server: string, template = 'template0'): Promise<PostgresDatabase> {
  const name = `handoff_test_${randomBytes(6).toString('hex')}`;
  // Unlike the usual template, `template0` has no connections that would forbid the copy.
  await run(server, `create database ${name} template ${template}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, stop: () => run(server, `drop database ${name} with (force)`) };
}

/** A server that runs already and lets us make databases. Throws when DATABASE_URL names one that does not. */
export async function findPostgresServer(): Promise<PostgresServer | undefined> {
  const given = process.env[sharedServerVariable] ?? process.env['DATABASE_URL'];
  const user = process.env['PGUSER'] ?? userInfo().username;
  const usual = [user, 'postgres'].map((name) => `postgresql://${name}@127.0.0.1:5432/postgres`);
  for (const url of given === undefined ? usual : [given]) {
    try {
      await run(
        url,
        'do $$ begin assert (select rolcreatedb or rolsuper from pg_roles where rolname = user); end $$',
      );
      return { url, stop: async () => {} };
    } catch (error) {
      if (given !== undefined)
        throw new Error('DATABASE_URL names no server that tests can use', { cause: error });
    }
  }
  return undefined;
}

/** Starts a server of the tests' own from the installed programs, in a temporary folder and on a free port. */
export async function startPostgresServer(): Promise<OwnPostgresServer | undefined> {
  const programs = findPostgresPrograms();
  if (programs === undefined) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'handoff-postgres-'));
  const owner = otherUser();
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid);
  const data = join(folder, 'data');
  const initialise = [
    '-D',
    data,
    '-U',
    'postgres',
    '--auth=trust',
    '--no-sync',
    '--encoding=UTF8',
    '--locale=C',
  ];
  execFileSync(join(programs, 'initdb'), initialise, {
    stdio: ['ignore', 'ignore', 'inherit'],
    cwd: folder,
    ...owner,
  });
  const port = await freePort();
  const settings = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'fsync=off',
    'max_connections=300',
  ];
  const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  const launch = (level: 'fatal' | 'panic') => {
    const set = [...settings, `log_min_messages=${level}`].flatMap((setting) => ['-c', setting]);
    const started = spawn(join(programs, 'postgres'), ['-D', data, '-p', String(port), ...set], {
      stdio: ['ignore', 'ignore', 'inherit'],
      cwd: folder,
      ...owner,
    });
    // A process that has one for its life ends when its tests do.
    started.unref();
    return started;
  };
  let child = launch('fatal');
  let ended = once(child, 'exit');
  // A process that does not stop it, or fails before, would leave it behind.
  const kill = () => {
    child.kill('SIGQUIT');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  process.once('exit', kill);
  await untilReady(url, ended);
  // At once, without waiting for clients and without writing anything.
  const crash = async () => {
    child.kill('SIGQUIT');
    // Nothing else may keep the process alive that waits for this.
    child.ref();
    await ended;
  };
  return {
    url,
    crash,
    restart: async () => {
      // Clients knock while it recovers, and it would log each of them.
      child = launch('panic');
      ended = once(child, 'exit');
      await untilReady(url, ended);
    },
    stop: async () => {
      process.off('exit', kill);
      await crash();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function untilReady(url: string, ended: Promise<unknown>): Promise<void> {
  const failed = ended.then(() => {
    throw new Error('PostgreSQL was started and ended at once, for the reason above');
  });
  await Promise.race([eventually(() => run(url, 'select 1')), failed]);
}

/** The folder of the newest installed programs of a server. */
export function findPostgresPrograms(): string | undefined {
  const newestFirst = globSync('/usr/lib/postgresql/*/bin').sort((a, b) => version(b) - version(a));
  const folders = [...newestFirst, ...(process.env['PATH'] ?? '').split(delimiter)];
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')));
}

function version(folder: string): number {
  return Number.parseInt(dirname(folder).split('/').at(-1) ?? '', 10) || 0;
}

/** PostgreSQL refuses to run as root: its own user does it then, or the one who owns nothing. */
function otherUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const user of ['postgres', 'nobody']) {
    try {
      const id = (flag: string) =>
        Number(execFileSync('id', [flag, user], { stdio: ['ignore', 'pipe', 'ignore'] }));
      return { uid: id('-u'), gid: id('-g') };
    } catch {
      // There is no such user.
    }
  }
  return undefined;
}

async function run(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 120_000 });
  // A server that ends breaks the connection after its answer too.
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query(statement);
  } finally {
    await client.end().catch(() => {});
  }
}

function missing(reason: string): undefined {
  if (process.env['CI'] === 'true') throw new Error(`These tests need PostgreSQL, but ${reason}`);
  console.error(`SKIPPED: tests with a real PostgreSQL, because ${reason}`);
  return undefined;
}
