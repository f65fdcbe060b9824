import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';
import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely';
import type { Database } from '../../src/platform/store/database.ts';
import { createHistory, migrate } from '../../src/platform/store/migrate.ts';
import { embedded } from '../virtual/preload.ts';
import type { World } from '../virtual/world.ts';
import { PreparedStatements } from './prepared.ts';
import type { Way } from './reach.ts';

/** As in `postgres.ts`: how long the server waits for the next statement of a transaction, and for a lock. */
const idleInTransactionMs = 5000;
const lockWaitMs = 2000;

/**
 * Room for everything, and nothing that would only matter after a crash. Statements are planned once, whatever their values: how often
 * one was executed decides nothing.
 */
const startParams = [
  ...PGlite.defaultStartParams,
  ...['shared_buffers=64MB', 'fsync=off', 'full_page_writes=off', 'synchronous_commit=off'].flatMap((one) => [
    '-c',
    one,
  ]),
  ...[
    'wal_level=minimal',
    'max_wal_senders=0',
    'jit=off',
    'plan_cache_mode=force_generic_plan',
    'search_path=public,pg_catalog',
  ].flatMap((one) => ['-c', one]),
];

/** Ids that the database makes, in place of its random ones: the same in each run. */
const countedIds = `
  create sequence simulated_ids;
  create function public.gen_random_uuid() returns uuid language sql volatile
    as $$ select md5('simulated ' || nextval('public.simulated_ids'))::uuid $$`;

/** The files of a migrated database; other migrations or packages make others. */
const template = join(tmpdir(), `handoff-simulation-${hashOfSchema()}-${process.getuid?.()}.tar`);

function hashOfSchema(): string {
  const hash = createHash('sha256');
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const migrations = join(root, 'src/platform/store/migrations');
  for (const file of [join(root, 'package-lock.json'), import.meta.filename]) hash.update(readFileSync(file));
  for (const file of readdirSync(migrations)) hash.update(readFileSync(join(migrations, file)));
  return hash.digest('hex').slice(0, 12);
}

/** The table of which a statement leases rows, alone or in a part of it. */
function leasedBy(text: string): string {
  const [, table = 'nothing'] = /\bupdate "?(\w+)"? (?:as )?"?\w+"? set "fence" = /.exec(text) ?? [];
  return table;
}

/** Known by its identity. */
type Transaction = object;

interface Waiter {
  transaction: Transaction;
  start: () => void;
}

/**
 * One embedded PostgreSQL behind all replicas. It has one connection, so that a transaction keeps all others waiting; they
 * give up as they would over a lock.
 */
export class CommonDatabase {
  readonly #pglite: PGlite;
  readonly #statements: PreparedStatements;
  /** Statements that put back the rows that migrations have made. */
  readonly #refill: string[] = [];
  #world: World | undefined;
  #holder: Transaction | undefined;
  #waiting: Waiter[] = [];

  private constructor(pglite: PGlite) {
    this.#pglite = pglite;
    this.#statements = new PreparedStatements(pglite);
  }

  /** Made once for many runs: that takes seconds, and less where another process has left its files. */
  static async open(): Promise<CommonDatabase> {
    // Its timers would go off in the runs, by the real clock.
    const { setTimeout } = globalThis;
    globalThis.setTimeout = (() => undefined) as never;
    try {
      return await CommonDatabase.#open();
    } finally {
      globalThis.setTimeout = setTimeout;
    }
  }

  static async #open(): Promise<CommonDatabase> {
    const files = await readFile(template).catch(() => undefined);
    if (files !== undefined) {
      const loaded = new CommonDatabase(await PGlite.create({ startParams, loadDataDir: new Blob([files]) }));
      await loaded.#noteFirstRows();
      return loaded;
    }
    const made = new CommonDatabase(await PGlite.create({ startParams }));
    await made.#pglite.exec(countedIds);
    await migrate(made.#plain());
    await made.#noteFirstRows();
    await made.#pglite.exec('checkpoint');
    const dump = await made.#pglite.dumpDataDir('none');
    await writeFile(`${template}.${process.pid}`, Buffer.from(await dump.arrayBuffer()));
    await rename(`${template}.${process.pid}`, template);
    return made;
  }

  /** Empties all tables, for a run in this world. */
  async begin(world: World): Promise<void> {
    this.#world = world;
    this.#holder = undefined;
    this.#waiting = [];
    this.#statements.execute('rollback', []);
    embedded.isAtWork = true;
    await this.#pglite.exec(`
      do $$ declare names text; begin
        select string_agg(format('%I', relname), ', ') into names from pg_class
          where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 'schema_migrations'
            and pg_relation_size(oid) > 0;
        if names is not null then execute 'truncate ' || names || ' restart identity cascade'; end if;
      end $$`);
    for (const statement of this.#refill) await this.#pglite.exec(statement);
    await this.#pglite.exec('alter sequence simulated_ids restart');
    embedded.isAtWork = false;
  }

  async #noteFirstRows(): Promise<void> {
    const tables = await this.query<{ name: string }>(
      `select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
        and relname <> 'schema_migrations' and pg_relation_size(oid) > 0 order by 1`,
    );
    for (const { name } of tables) {
      const [first] = await this.query<{ rows: string }>(`select json_agg(t)::text as rows from "${name}" t`);
      const rows = first?.rows.replaceAll("'", "''");
      this.#refill.push(
        `insert into "${name}" overriding system value select * from json_populate_recordset(null::"${name}", '${rows}')`,
      );
    }
  }

  /** Rows as the auditor sees them, past all replicas. */
  async query<Row>(text: string): Promise<Row[]> {
    return this.#statements.execute(text, []).rows as Row[];
  }

  close(): Promise<void> {
    return this.#pglite.close();
  }

  seenFrom(way: Way): Database {
    const sql = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: this.#pool(way) }) });
    const execute = async (text: string, values: unknown[] = []) => {
      const client = await this.#pool(way).connect();
      return client.query(text, values);
    };
    return {
      ...this.#plain(),
      sql,
      bulk: sql,
      execute,
      checkHealth: async () => void (await execute('select 1')),
      close: async () => {},
    };
  }

  #plain(): Database {
    const nothing = undefined as unknown as Kysely<unknown>;
    return {
      kind: 'postgres',
      sql: nothing,
      bulk: nothing,
      execute: async (text, values = []) => this.#statements.execute(text, values),
      migrate: async (statements) => {
        // One migration for all runs and replicas.
        if (this.#world !== undefined) return;
        await this.#pglite.exec(createHistory);
        for (const statement of statements([])) await this.#pglite.exec(statement);
      },
      checkHealth: async () => {},
      close: async () => {},
    };
  }

  #pool(way: Way): PostgresPool {
    return { options: {}, end: async () => {}, connect: async () => this.#connect(way) };
  }

  #connect(way: Way): PostgresPoolClient {
    const lost = () => Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' });
    let own: Transaction | undefined;
    let isLost = false;
    let idle: (() => void) | undefined;
    const end = () => {
      idle?.();
      way.actor.onKilled.delete(giveUp);
      if (own !== undefined) this.#leave(own);
      own = undefined;
    };
    /** The server ends a transaction whose client is gone or says nothing. */
    const giveUp = () => {
      const transaction = own;
      end();
      if (transaction === undefined) return;
      isLost = true;
      this.#statements.execute('rollback', []);
    };
    const query = async (text: string, values: unknown[]) => {
      const isBegin = /^begin\b/i.test(text);
      const isEnd = /^(commit|rollback)\b/i.test(text);
      if (isLost) throw lost();
      idle?.();
      const result = await way
        .call(async () => {
          if (isLost) throw lost();
          const transaction = own ?? {};
          if (own === undefined) await this.#enter(transaction);
          if (isBegin) {
            own = transaction;
            way.actor.onKilled.add(giveUp);
            if (way.actor.state === 'dead') giveUp();
            // A transaction that nobody ends would hold the statements of all others.
            if (isLost) throw lost();
          }
          try {
            const answer = await this.#run(text, values);
            if (answer.rows.length > 0) way.actor.reach(`lease of ${leasedBy(text)}`);
            return answer;
          } finally {
            if (own === undefined) this.#leave(transaction);
            else if (isEnd) end();
            else idle = way.world.schedule(idleInTransactionMs, giveUp, { actor: undefined });
          }
        }, lost)
        .catch((error: unknown) => {
          // Whatever was lost on the way, the server ends the transaction of a broken connection.
          if (own !== undefined && (error as { code?: string }).code === 'ECONNRESET') giveUp();
          throw error;
        });
      return result;
    };
    return { query, release: giveUp } as unknown as PostgresPoolClient;
  }

  /** As `pg` answers, so far as Kysely looks. */
  async #run(text: string, values: unknown[]) {
    const { rows, affected } = this.#statements.execute(text, values);
    return { rows, rowCount: affected, command: /^commit\b/i.test(text) ? 'COMMIT' : 'UPDATE' };
  }

  /** Throws as the server does for a lock that is held too long. */
  #enter(transaction: Transaction): Promise<void> {
    if (this.#holder === undefined) {
      this.#holder = transaction;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const late = () => {
        this.#waiting = this.#waiting.filter((each) => each !== waiter);
        reject(Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' }));
      };
      const cancel = this.#world?.schedule(lockWaitMs, late, { actor: undefined });
      const waiter = {
        transaction,
        start: () => {
          cancel?.();
          resolve();
        },
      };
      this.#waiting.push(waiter);
    });
  }

  #leave(transaction: Transaction): void {
    if (this.#holder !== transaction) return;
    const next = this.#waiting.shift();
    this.#holder = next?.transaction;
    next?.start();
  }
}
