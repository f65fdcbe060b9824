import { createBatcher } from '../../platform/base/batching.ts';
import type { Call } from '../../platform/base/call.ts';
import { clearTimeout, monotonicMs, setTimeout } from '../../platform/base/chance.ts';
import { coalesce, type Listeners } from '../../platform/base/concurrency.ts';
import { dayMs } from '../../platform/base/moment.ts';
import type { SharedCache } from '../../platform/cache/shared-cache.ts';
import type { ConnectionState } from '../../platform/observability/health.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable } from '../../platform/store/failures.ts';
import { type ChangeSource, missingIdOf } from '../../records/changes.ts';
import { member } from '../../records/members.ts';
import type { RecordCopy } from '../../records/offers.ts';
import { readable } from '../../records/org-fit.ts';
import type { Records } from '../../records/records.ts';
import { namesOf, type Resource } from '../../records/resource.ts';
import type { CopyWriter } from '../events/copy-writer.ts';
import { createCopiedReads } from './copied-records.ts';
import { type CopiedRow, keyOf, originHash, staleIdRow, staleRow } from './copied-row.ts';
import { CopySync } from './copy-sync.ts';
import { CopyTable } from './copy-table.ts';
import type { ReadCopyMetrics } from './metrics.ts';
import { withCopy } from './written-records.ts';

/*
 * A copy of quotes, bookings and members in the database, which answers reads that take an answer of some age.
 *
 * A row is in one of these states:
 *
 *   absent ──────── read by the fill, the reader, or written ────────> known ── seen deleted, or deleted ──> deleted
 *                                                                    │     ^
 *      outcome of a write unknown; two states that may be the newer ─┘     └─ read again, in the reader's poll
 *                                                                   stale
 *
 *   known     what the CRM had when the last poll began, or later. Answers from it are as old as that poll.
 *   stale     the CRM is asked, for this record and for every list of its resource. Where it fails, and the caller takes an
 *             answer of some age then, the row counts as it was at the last complete poll before it became stale, unless it
 *             lacks an acknowledged write (`right_at`).
 *   deleted   kept for a day, so that no read from before brings the record back.
 *
 * No clock is compared with the CRM's. Each state is known to have been read between two moments of the database's clock,
 * and replaces another only where all of its time comes after. The reader's pages were read after its poll began: they
 * replace what was last written before that. What a write read back replaces what was stored before the write began.
 * Otherwise the state that the CRM changed later is the newer one; within one second of the CRM's, and where one of them is
 * a deletion, the row is stale.
 *
 * Each resource is as old as the last poll that read all of it: polls leave out those that the org lacks, and the others go on.
 *
 * All replicas that read changes must keep the copy. A poll that did not keep it breaks the chain of fences, and the copy is
 * filled again.
 */

/** Writes that wait to be noted while the database is unavailable; beyond that the copy is dropped when it is back. */
const mostWaiting = 10_000;
const retryMs = 500;

type CopyCache = Pick<SharedCache, 'get' | 'set' | 'publish' | 'subscribe'>;

interface CopyOptions {
  database: Database;
  org: string;
  resources: readonly Resource[];
  typesChanged?: Listeners<[]>;
  source: ChangeSource;
  records: Records;
  defaultMaxAgeSeconds: number;
  pollSeconds: number;
  cache: CopyCache;
  environment: string;
  log: Log;
  metrics: ReadCopyMetrics;
}

export interface Copy {
  records: Records;
  reads: Pick<RecordCopy, 'find' | 'list'>;
  writer: CopyWriter;
  /** A record may have changed: the CRM is asked until it is read again. Throws what the database does. */
  markStale(resource: Resource, externalId: string): Promise<void>;
  /** Notes that the CRM had no record with this External ID that the caller may see, asked at `since`. Never rejects. */
  missing(resource: Resource, externalId: string, call: Call, since: number): Promise<void>;
  health(): Promise<ConnectionState>;
  /** To be awaited before the first read. Never rejects. */
  start(): Promise<void>;
  stop(): void;
}

/** Behind by more than this many polls, and this many seconds, the copy counts as not connected. */
const mostPolls = 5;
const mostSeconds = 600;

export function createCopy(options: CopyOptions): Copy {
  const { database, org, resources, records, pollSeconds } = options;
  const table = new CopyTable(database, originHash(org, resources));
  options.typesChanged?.add(() => {
    table.fields = originHash(org, resources);
  });
  const unnoted = new UnnotedWrites(options.cache, options.environment);
  const notes = new Notes(table, unnoted, options.log);
  const reads = createCopiedReads({
    ...options,
    table,
    isBehind: () => notes.isBehind,
    areUnnotedSeenBy: (pollAge) => unnoted.areSeenBy(pollAge),
  });
  return {
    start: () => unnoted.start(),
    reads: {
      find: (resource, externalId, call) => reads.find(resource, externalId, ofAnyAge(call)),
      list: (resource, query, call) => reads.list(resource, query, ofAnyAge(call)),
    },
    records: withCopy(records, reads, {
      note: (row) => notes.add(row),
      async doubt({ name }, externalId) {
        // Members are not written here.
        if (name === member.name) return;
        await table
          .doubt({ resource: name, externalId: externalId.toLowerCase() })
          .catch(() => unnoted.report());
      },
    }),
    writer: new CopySync({ ...options, table }),
    markStale: (resource, externalId) => table.markStale({ resource: resource.name, externalId }),
    async missing(resource, externalId, call, since) {
      const id = missingIdOf(resource, externalId, call);
      const note = () => table.missing(id, since, call.freshness === undefined);
      await note().catch(() => note().catch(() => undefined));
    },
    async health() {
      const { age, isFilled, records: count } = await table.facts(namesOf(readable(resources)));
      const isOld = age === null || age > Math.max(mostSeconds, mostPolls * pollSeconds);
      return {
        connected: !isOld,
        age_seconds: age === null ? null : Math.ceil(age),
        records: count,
        ...(!isFilled && { filling: true }),
      };
    },
    stop() {
      notes.stop();
      unnoted.stop();
    },
  };
}

function ofAnyAge(call: Call): Call {
  return { ...call, freshness: { maxAgeSeconds: Number.MAX_SAFE_INTEGER } };
}

/** Drops the copy; a service that keeps it fills it again. Throws what the database does. */
export async function dropCopy(database: Database): Promise<void> {
  await new CopyTable(database, '').drop();
}

/** Clears what the copy needs no more. Throws what the database does. */
export async function clearCopy(database: Database, signal?: AbortSignal): Promise<void> {
  await new CopyTable(database, '').clearDeleted(signal);
}

/** Takes a member's data out of the copy, and what names it; returns how many records. Throws what the database does. */
export function eraseCopiedMember(database: Database, memberId: string): Promise<number> {
  return new CopyTable(database, '').eraseMember(memberId);
}

class Notes {
  readonly #table: CopyTable;
  readonly #unnoted: UnnotedWrites;
  readonly #log: Log;
  readonly #write: (row: CopiedRow) => Promise<void>;
  readonly #waiting = new Map<string, CopiedRow>();
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(table: CopyTable, unnoted: UnnotedWrites, log: Log) {
    this.#table = table;
    this.#unnoted = unnoted;
    this.#log = log;
    this.#write = createBatcher<CopiedRow, void>({
      execute: async (rows) => {
        await table.write(rows);
        return rows.map(() => undefined);
      },
      inFlight: 2,
      batchSize: 200,
      identity: keyOf,
      isShared: isUnavailable,
      isHung,
    });
  }

  get isBehind(): boolean {
    return this.#waiting.size > 0 || this.#lost > 0;
  }

  /** Never throws: the write is done in the CRM, and is acknowledged. */
  async add(row: CopiedRow): Promise<void> {
    try {
      await this.#write(row).catch(() => this.#write(row));
    } catch (err) {
      if (!this.isBehind) this.#log.warn({ err }, "couldn't note a write in the copy yet");
      this.#wait(staleRow(row));
      this.#timer ??= setTimeout(() => void this.#retry(), retryMs).unref();
      await this.#unnoted.report();
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** The row that comes last may not have the record's last External ID: notes of two writes may fail in any order. */
  #wait(row: CopiedRow): void {
    const before = this.#waiting.get(keyOf(row));
    const both = { ...row, lacksWrite: row.lacksWrite || before?.lacksWrite === true };
    const rows = before && before.externalId !== row.externalId ? [both, staleIdRow(before)] : [both];
    for (const one of rows) {
      if (this.#waiting.size < mostWaiting) this.#waiting.set(keyOf(one), one);
      else this.#lost += 1;
    }
  }

  async #retry(): Promise<void> {
    this.#timer = undefined;
    const rows = [...this.#waiting.values()];
    const lost = this.#lost;
    try {
      if (lost > 0) await this.#table.drop();
      else await this.#table.write(rows);
      this.#lost -= lost;
      for (const row of rows) if (this.#waiting.get(keyOf(row)) === row) this.#waiting.delete(keyOf(row));
    } catch {
      // It is tried again.
    }
    if (this.isBehind) this.#timer ??= setTimeout(() => void this.#retry(), retryMs).unref();
  }
}

/** How long a report is kept for processes that start later; after longer without a poll the copy is refilled anyway. */
const reportKeptMs = 15 * dayMs;
const announceRetryMs = 500;

/**
 * Writes that a replica could not store in the copy, since it did not reach the database. After such a write every replica asks
 * the CRM until there is a poll that began later: that one has seen the write, even if the replica has ended meanwhile.
 * Without Redis other replicas do not learn of it; those whose connection to it is lost learn of it when they have another.
 */
class UnnotedWrites {
  readonly #cache: CopyCache;
  readonly #key: string;
  readonly #unsubscribe: () => void;
  readonly #announce: () => Promise<void>;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #wasSubscribed = false;

  constructor(cache: CopyCache, environment: string) {
    this.#cache = cache;
    this.#key = `copy_behind:${environment}`;
    this.#unsubscribe = cache.subscribe(
      this.#key,
      () => this.#note(),
      () => this.#noteSubscription(),
    );
    this.#announce = coalesce(async () => {
      const done = [cache.set(this.#key, 'yes', reportKeptMs), cache.publish(this.#key, 'yes')];
      // Each is tried, even if the other fails.
      await Promise.allSettled(done);
      await Promise.all(done);
    });
  }

  /** Learns of those that were reported before; where the cache is unavailable, there may be some. */
  async start(): Promise<void> {
    const reported = await this.#cache.get(this.#key).catch(() => 'unknown');
    if (reported !== undefined) this.#note();
  }

  /** To be awaited before the write is acknowledged. Never rejects. */
  async report(): Promise<void> {
    this.#note();
    await this.#tryToAnnounce();
    this.#note();
  }

  /** Whether a poll that began this many seconds ago has seen them all. */
  areSeenBy(pollAge: number): boolean {
    return monotonicMs() - pollAge * 1000 > this.#reportedAt;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#unsubscribe();
  }

  async #tryToAnnounce(): Promise<void> {
    await this.#announce().catch(() => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.#tryToAnnounce(), announceRetryMs).unref();
    });
  }

  /** The cache has the reports from before the first subscription. While a connection was lost, one may have failed to get there. */
  #noteSubscription(): void {
    if (this.#wasSubscribed) this.#note();
    else void this.start();
    this.#wasSubscribed = true;
  }

  #note(): void {
    this.#reportedAt = monotonicMs();
  }
}
