import { sql } from 'kysely';
import { type Call, startCall } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import type {
  ChangedPage,
  ChangedRecord,
  ChangePosition,
  ChangeSource,
  IdRange,
} from '../../records/changes.ts';
import { member } from '../../records/members.ts';
import { readable } from '../../records/org-fit.ts';
import type { Records, StoredRecord } from '../../records/records.ts';
import { namesOf, type Resource } from '../../records/resource.ts';
import { type CopyLease, type CopyWriter, type Fenced, Replaced } from '../events/copy-writer.ts';
import { type CopiedRow, changedRow, isNameless, keyOf, rowOf } from './copied-row.ts';
import type { CopyTable, FillPositions, StaleRecord } from './copy-table.ts';
import type { ReadCopyMetrics } from './metrics.ts';

/**
 * Runs in the statement that takes the reader's lease: a copy written under the previous fence continues under the new one;
 * one that missed a fence is filled again.
 */
const follow = sql`kept as (
  update copy_state set fence = taken.fence from taken where copy_state.fence = taken.fence - 1
)`;

/** For this long one poll of the reader asks for stale records, and then fills: events wait for the next poll. */
const longestMs = 10_000;
/** Pages that one poll reads for the fill at most. */
const mostPages = 10;
const askedAtOnce = 100;
const askedInPoll = 1000;
const storedAtOnce = 500;
const storedInTransaction = 2000;
const callMs = 15_000;
const none: ReadonlySet<Resource> = new Set();
const firstPosition: ChangePosition = { stamp: '1970-01-01T00:00:00.000Z' };

interface CopySyncOptions {
  table: CopyTable;
  resources: readonly Resource[];
  source: ChangeSource;
  records: Pick<Records, 'find'>;
  log: Log;
  metrics: Pick<ReadCopyMetrics, 'copyRecords' | 'copyAge'>;
}

export class CopySync implements CopyWriter {
  readonly #options: CopySyncOptions;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(options: CopySyncOptions) {
    this.#options = options;
  }

  get lease(): CopyLease {
    return { follow, age: this.#options.table.age(this.#readable) };
  }

  get #readable(): string[] {
    return namesOf(readable(this.#options.resources));
  }

  async begin(fence: string, hasGap: boolean, fenced: Fenced): Promise<void> {
    const { table, resources, log } = this.#options;
    const state = await table.state();
    const isKept = state?.fence === fence && state.fields === table.fields;
    if (isKept && !hasGap) return;
    if (state !== undefined)
      log.warn({}, 'the copy lacks changes, or is of another org or other fields; filling it again');
    const positions = Object.fromEntries(resources.map(({ name }) => [name, firstPosition]));
    await fenced((transaction) => table.reset(transaction, fence, positions));
  }

  async keep(transaction: Database['sql'], records: readonly ChangedRecord[]): Promise<void> {
    const { table } = this.#options;
    // A page may have a record twice, where it changed while the page was read.
    const rows = [...new Map(records.map((record) => [record.nativeId, changedRow(record)])).values()];
    if (rows.length === 0) return;
    await table.follow(transaction, rows.filter(isMember));
    for (let start = 0; start < rows.length; start += storedAtOnce)
      await table.keep(transaction, rows.slice(start, start + storedAtOnce));
  }

  async work(fenced: Fenced, read: readonly Resource[], stopping: AbortSignal): Promise<boolean> {
    try {
      const isMoreStale = await this.#refreshStale(fenced, read, watch(stopping));
      return (await this.#fill(fenced, read, watch(stopping))) || isMoreStale;
    } catch (err) {
      if (err instanceof Replaced) throw err;
      this.#options.log.warn({ err }, "couldn't fill the copy of Salesforce further for now");
      return false;
    } finally {
      await this.#logProgress();
    }
  }

  compare(transaction: Database['sql'], range: IdRange, ids: readonly string[]): Promise<void> {
    return this.#options.table.compare(transaction, range, ids);
  }

  reportAge(seconds: number | null): void {
    this.#options.metrics.copyAge.set(seconds ?? Number.NaN);
  }

  async complete(transaction: Database['sql'], fence: string, read: readonly Resource[]): Promise<void> {
    const { table, resources } = this.#options;
    const isNamed = resources.some(({ name }) => name === member.name);
    // A member that nobody reads may have another External ID by now, and what names it shows the old one.
    if (isNamed && !read.some(({ name }) => name === member.name)) return;
    await table.complete(transaction, fence, {
      read: namesOf(read),
      isWhole: read.length === resources.length,
    });
  }

  async #refreshStale(fenced: Fenced, read: readonly Resource[], isOver: () => boolean): Promise<boolean> {
    const { table, records } = this.#options;
    const staleRecords = await table.staleRecords(namesOf(read), askedInPoll);
    for (let start = 0; start < staleRecords.length; start += askedAtOnce) {
      if (isOver()) return true;
      const asked = staleRecords.slice(start, start + askedAtOnce).map(async (stale) => {
        const resource = read.find(({ name }) => name === stale.resource);
        if (resource === undefined) return [];
        return settled(resource, stale, await records.find(resource, stale.external_id, fillCall()));
      });
      const rows = eachOnce((await Promise.all(asked)).flat());
      await fenced(async (transaction) => {
        await table.follow(transaction, rows.filter(isMember));
        // First those of which only the External ID is known: where that is stale again, it is noted under the same name.
        await table.write(rows.filter(isNameless), transaction);
        await table.write(
          rows.filter((row) => !isNameless(row)),
          transaction,
        );
      });
    }
    return staleRecords.length === askedInPoll;
  }

  async #fill(fenced: Fenced, read: readonly Resource[], isOver: () => boolean): Promise<boolean> {
    const { table, source, log } = this.#options;
    let positions = (await table.state())?.positions ?? {};
    let left = positionsOf(read, positions);
    for (let pages = 0; left.size > 0 && pages < mostPages; pages++) {
      if (isOver()) return true;
      const page = await source.readChanges(left, fillCall());
      positions = await this.#storePage(fenced, positions, page);
      left = positionsOf(read, positions);
      if (left.size === 0) log.info({}, 'the copy of Salesforce is filled');
    }
    return left.size > 0;
  }

  async #storePage(fenced: Fenced, from: FillPositions, page: ChangedPage): Promise<FillPositions> {
    const { table } = this.#options;
    let positions = from;
    for (let start = 0; start === 0 || start < page.records.length; start += storedInTransaction) {
      const end = start + storedInTransaction;
      const records = page.records.slice(start, end);
      positions = positionsAfter(positions, records, end < page.records.length ? none : page.complete);
      await fenced(async (transaction) => {
        await this.keep(transaction, records);
        await table.move(transaction, positions);
      });
    }
    return positions;
  }

  async #logProgress(): Promise<void> {
    const { table, log, metrics } = this.#options;
    if (monotonicMs() - this.#loggedAt < 10_000) return;
    const { isFilled, records } = await table.facts(this.#readable);
    metrics.copyRecords.set(records);
    this.#loggedAt = monotonicMs();
    if (!isFilled) log.info({ records }, 'the copy of Salesforce is being filled');
  }
}

function isMember({ resource }: CopiedRow): boolean {
  return resource === member.name;
}

function watch(stopping: AbortSignal): () => boolean {
  const began = monotonicMs();
  return () => stopping.aborted || monotonicMs() - began > longestMs;
}

function settled(resource: Resource, stale: StaleRecord, found: StoredRecord | undefined): CopiedRow[] {
  const known = { nativeId: stale.native_id, externalId: stale.external_id };
  const gone = rowOf(resource, known, { written: 'gone', since: stale.now });
  if (found === undefined) return [gone];
  const row = rowOf(resource, known, { written: found, since: stale.now });
  return found.nativeId === stale.native_id ? [row] : [row, gone];
}

/** Several stale rows may lead to one record; where it was found under another id, it is not gone. */
function eachOnce(rows: readonly CopiedRow[]): CopiedRow[] {
  const isFoundLast = [...rows].sort((a, b) => Number(b.isDeleted) - Number(a.isDeleted));
  return [...new Map(isFoundLast.map((row) => [keyOf(row), row])).values()];
}

function fillCall(): Call {
  return { ...startCall('copy', undefined, callMs), background: 'batch' };
}

function positionsOf(
  resources: readonly Resource[],
  positions: FillPositions,
): Map<Resource, ChangePosition> {
  return new Map(
    resources.flatMap((resource) => {
      const position = positions[resource.name];
      return position === undefined ? [] : [[resource, position] as const];
    }),
  );
}

function positionsAfter(
  positions: FillPositions,
  records: readonly ChangedRecord[],
  complete: ReadonlySet<Resource>,
): FillPositions {
  const after = { ...positions };
  for (const { resource, stamp, nativeId } of records) after[resource.name] = { stamp, nativeId };
  for (const { name } of complete) delete after[name];
  return after;
}
