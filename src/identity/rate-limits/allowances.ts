import { sql } from 'kysely';
import { WriteBehind } from '../../platform/base/batching.ts';
import { clearInterval, randomUUID, setInterval, wallMs } from '../../platform/base/chance.ts';
import { coalesce } from '../../platform/base/concurrency.ts';
import { forgetOldest } from '../../platform/base/forget-oldest.ts';
import { dayMs } from '../../platform/base/moment.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { takeOldCounts } from '../../platform/store/statements.ts';
import type { Allowance } from '../consumers/consumer.ts';

const maxConsumers = 100_000;
const batchSize = 500;
const refreshMs = 4000;
const noticedPart = 0.8;

export interface AllowanceOwner {
  id: string;
  allowance?: Allowance | null;
}

export interface AllowanceState extends Allowance {
  used: number;
  /** RFC 3339. */
  resets_at: string;
}

export interface AllowanceNotice {
  consumerId: string;
  state: AllowanceState;
  /** First day of the period, `YYYY-MM-DD`. */
  period: string;
}

type Listener = (notice: AllowanceNotice) => Promise<void>;

interface Use {
  /** Days since 1970. */
  day: number;
  own: number;
  ofDay: number;
  ofMonth: number;
  ownRead: number;
  allowance: Allowance;
}

interface AllowancesOptions {
  database: Database;
  log: Log;
  isUsed: () => boolean;
  /** Milliseconds since 1970; the system's clock if left out. */
  clock?: () => number;
}

/**
 * Counts the requests of consumers that have an allowance. Each replica counts by itself, writes each second what it has counted,
 * and reads what the others have, also while it counts nothing: so an allowance may be passed by what replicas let through within
 * some seconds. While the database is unavailable each goes on by itself.
 */
export class Allowances {
  readonly #table: AllowancesTable;
  readonly #log: Log;
  readonly #clock: () => number;
  readonly #uses = new Map<string, Use>();
  readonly #unstored: WriteBehind<{ consumerId: string; day: number; requests: number }>;
  readonly #noticed = new Set<string>();
  readonly #refreshing: NodeJS.Timeout;
  #listener: Listener | undefined;

  constructor({ database, log, isUsed, clock = wallMs }: AllowancesOptions) {
    this.#table = new AllowancesTable(database);
    this.#log = log;
    this.#clock = clock;
    this.#unstored = new WriteBehind({
      write: async (rows) => {
        await this.#table.store(rows);
        await this.#read(rows.map(({ consumerId }) => consumerId));
      },
      batchSize,
      most: maxConsumers,
    });
    const refresh = coalesce(() => this.refresh());
    this.#refreshing = setInterval(() => {
      if (!isUsed()) return;
      refresh().catch((err: unknown) => log.debug({ err }, "couldn't read the use of allowances"));
    }, refreshMs);
    this.#refreshing.unref();
  }

  /** Called until it has resolved once for a period of a consumer; on every replica. */
  onNotice(listener: Listener): void {
    this.#listener = listener;
  }

  /** Reads what was used in this month. Where that fails, it is read with the first requests. */
  async start(): Promise<void> {
    try {
      await this.refresh();
    } catch (err) {
      this.#log.warn({ err }, "couldn't read the use of allowances yet");
    }
  }

  /** Reads what all replicas have counted in this month. Throws what the database does. */
  async refresh(): Promise<void> {
    const all = await this.#table.readAll(this.#today());
    for (const stored of all) this.#keep(stored);
    for (const { consumer_id } of all) await this.#notice(consumer_id);
  }

  /** Counts a request; undefined where there is no allowance. One beyond it is refused and not counted. */
  take({ id, allowance }: AllowanceOwner): (AllowanceState & { allowed: boolean }) | undefined {
    if (!allowance) return undefined;
    const use = this.#current(id, allowance);
    const before = usedOf(use);
    const allowed = before < allowance.requests;
    if (allowed) {
      use.own += 1;
      const { day, own } = use;
      this.#unstored.add(`${day} ${id}`, { consumerId: id, day, requests: own });
    }
    return { ...this.#stateOf(use), allowed };
  }

  async used({ id, allowance }: AllowanceOwner): Promise<AllowanceState | null> {
    if (!allowance) return null;
    try {
      await this.#unstored.flush();
      await this.#read([id]);
    } catch (err) {
      this.#log.debug({ err, consumer_id: id }, "couldn't read the use of an allowance");
    }
    return this.#stateOf(this.#current(id, allowance));
  }

  /** Whole seconds until the period ends. */
  secondsUntil({ resets_at }: AllowanceState): number {
    return Math.max(1, Math.ceil((Date.parse(resets_at) - this.#clock()) / 1000));
  }

  claimNotice(transaction: Database['sql'], notice: AllowanceNotice): Promise<boolean> {
    return this.#table.claimNotice(transaction, notice);
  }

  /** Adds up what processes have counted, and deletes what no allowance is about any more. Throws what the database does. */
  compact(): Promise<void> {
    return this.#table.compact();
  }

  /** Never throws. */
  async stop(): Promise<void> {
    this.#listener = undefined;
    clearInterval(this.#refreshing);
    await this.#unstored
      .stop()
      .catch((err: unknown) => this.#log.error({ err }, "couldn't write the use of allowances"));
  }

  #today(): number {
    return Math.floor(this.#clock() / dayMs);
  }

  async #read(consumerIds: readonly string[]): Promise<void> {
    for (const stored of await this.#table.read(consumerIds, this.#today())) this.#keep(stored);
    for (const id of new Set(consumerIds)) await this.#notice(id);
  }

  #keep({ consumer_id, day, ofDay, ofMonth, own }: StoredUse): void {
    if (day !== this.#today()) return;
    const use = this.#current(consumer_id, this.#uses.get(consumer_id)?.allowance ?? noAllowance);
    // Use that was forgotten here goes on from what was stored.
    Object.assign(use, { own: Math.max(use.own, own), ofDay, ofMonth, ownRead: own });
  }

  #current(id: string, allowance: Allowance): Use {
    const day = this.#today();
    const known = this.#uses.get(id);
    const use = known ?? { day, own: 0, ofDay: 0, ofMonth: 0, ownRead: 0, allowance };
    if (use.day !== day) {
      const isSameMonth = startOf('month', use.day) === startOf('month', day);
      const ofMonth = isSameMonth ? use.ofMonth + use.own - use.ownRead : 0;
      Object.assign(use, { day, own: 0, ofDay: 0, ofMonth, ownRead: 0 });
    }
    use.allowance = allowance;
    if (known === undefined) {
      this.#uses.set(id, use);
      forgetOldest(this.#uses, maxConsumers);
    }
    return use;
  }

  #stateOf(use: Use): AllowanceState {
    const { requests, per } = use.allowance;
    const resets_at = new Date(endOf(per, use.day) * dayMs).toISOString();
    return { requests, per, used: usedOf(use), resets_at };
  }

  async #notice(consumerId: string): Promise<void> {
    const use = this.#uses.get(consumerId);
    if (use === undefined || this.#listener === undefined) return;
    const { requests, per } = use.allowance;
    if (usedOf(use) < noticedPart * requests) return;
    const period = new Date(startOf(per, use.day) * dayMs).toISOString().slice(0, 10);
    const name = `${per} ${period} ${consumerId}`;
    if (this.#noticed.has(name)) return;
    try {
      await this.#listener({ consumerId, state: this.#stateOf(use), period });
      this.#noticed.add(name);
      forgetOldest(this.#noticed, maxConsumers);
    } catch (err) {
      this.#log.warn({ err, consumer_id: consumerId }, "couldn't notify a consumer of its allowance yet");
    }
  }
}

/** For a consumer whose allowance is not known here yet: it is never reached. */
const noAllowance: Allowance = { requests: Number.MAX_SAFE_INTEGER, per: 'day' };

function usedOf({ allowance, own, ownRead, ofDay, ofMonth }: Use): number {
  return (allowance.per === 'day' ? ofDay : ofMonth) + own - ownRead;
}

/** Days since 1970 of the first day of the period. */
function startOf(per: Allowance['per'], day: number): number {
  if (per === 'day') return day;
  const date = new Date(day * dayMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) / dayMs;
}

function endOf(per: Allowance['per'], day: number): number {
  if (per === 'day') return day + 1;
  const date = new Date(day * dayMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) / dayMs;
}

interface StoredUse {
  consumer_id: string;
  /** Days since 1970. */
  day: number;
  ofDay: number;
  ofMonth: number;
  own: number;
}

const sqlDate = (day: number) => sql`(date '1970-01-01' + ${day}::int)`;

class AllowancesTable {
  readonly #database: Database;
  readonly #process = randomUUID();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Stores what this process has counted. Counts only grow: to store an earlier one later does no harm. */
  async store(rows: readonly { consumerId: string; day: number; requests: number }[]): Promise<void> {
    await sql`
      insert into allowance_uses as known (consumer_id, day, process, requests)
      select "consumerId", date '1970-01-01' + day, ${this.#process}, requests
      from json_to_recordset(${JSON.stringify(rows)}::json) as counted ("consumerId" text, day int, requests bigint)
      on conflict (consumer_id, day, process) do update set requests = greatest(known.requests, excluded.requests)
    `.execute(this.#database.sql);
  }

  read(consumerIds: readonly string[], day: number): Promise<StoredUse[]> {
    const ids = sql`select jsonb_array_elements_text(${JSON.stringify(consumerIds)}::jsonb)`;
    return this.#read(day, sql`and consumer_id in (${ids})`);
  }

  readAll(day: number): Promise<StoredUse[]> {
    return this.#read(day, sql``);
  }

  async #read(day: number, which: ReturnType<typeof sql>): Promise<StoredUse[]> {
    const { rows } = await sql<Omit<StoredUse, 'day'>>`
      select consumer_id, sum(requests)::double precision as "ofMonth",
        coalesce(sum(requests) filter (where day = ${sqlDate(day)}), 0)::double precision as "ofDay",
        coalesce(sum(requests) filter (where day = ${sqlDate(day)} and process = ${this.#process}), 0)::double precision as own
      from allowance_uses
      where day >= date_trunc('month', ${sqlDate(day)}) and day <= ${sqlDate(day)} ${which}
      group by consumer_id
    `.execute(this.#database.sql);
    return rows.map((row) => ({ ...row, day }));
  }

  async claimNotice(
    transaction: Database['sql'],
    { consumerId, state: { per }, period }: { consumerId: string; state: { per: string }; period: string },
  ): Promise<boolean> {
    const { rows } = await sql`
      insert into allowance_notices (consumer_id, per, period) values (${consumerId}, ${per}, ${period}::date)
      on conflict do nothing returning period`.execute(transaction);
    return rows.length > 0;
  }

  async compact(): Promise<void> {
    await sql`
      with ${takeOldCounts('allowance_uses', 'day', sql`current_date - 1`)}
      insert into allowance_uses as known (consumer_id, day, process, requests)
      select consumer_id, day, '', sum(requests) from old group by 1, 2
      on conflict (consumer_id, day, process) do update set requests = known.requests + excluded.requests
    `.execute(this.#database.bulk);
    await sql`delete from allowance_uses where day < current_date - 62`.execute(this.#database.bulk);
    await sql`delete from allowance_notices where period < current_date - 62`.execute(this.#database.bulk);
  }
}
