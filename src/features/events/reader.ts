import { startCall } from '../../platform/base/call.ts';
import { clearTimeout, monotonicMs, setTimeout, wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { Database } from '../../platform/store/database.ts';
import type { ChangedRecord, ChangePosition, ChangeSource } from '../../records/changes.ts';
import { readable } from '../../records/org-fit.ts';
import { namesOf, type Resource } from '../../records/resource.ts';
import { type CopyWriter, type Fenced, Replaced } from './copy-writer.ts';
import { addEvents } from './event-log.ts';
import { KnownIds, type PendingDeletion } from './known-ids.ts';
import type { EventMetrics } from './metrics.ts';
import type { MissingRecords } from './missing-records.ts';
import type { Chunk, Lease, Positions, ReaderState, ReaderTable } from './reader-table.ts';
import { createDiff, type Diff, deletionOf, type WatchedResource } from './record-diff.ts';

/*
 * The reader turns changes of records in the CRM, by anybody, into events. There is one for all replicas: the row
 * of `change_reader` is in one of these states, by the database's clock.
 *
 *   waiting ── due, or wanted and allowed ──> reading ── all pages stored ──> waiting
 *      ^                                        │  │
 *      ├──────── a call or statement failed ────┘  └── its process died ──> reading, with a lease that runs out;
 *      └─────────────────────────────────────────────────────────────────── then it is due
 *
 *   waiting  `due_at` says when the next poll is due, `not_before` when it may begin for a replica that knows of changes:
 *            its own writes, and webhooks. After a failure both are later, and later still where the CRM's daily calls run
 *            short.
 *   reading  the owner of the latest fence reads page after page. Each chunk of a page is one transaction: its events,
 *            what is known of its records, how far it was read, and a lease that is longer again. An owner that was
 *            replaced stores nothing, since every chunk checks the fence.
 *
 * Nothing is lost: a record's stamp is set before its transaction commits, so a record may become visible behind the
 * position that was read to. Every poll looks 120 s behind where the poll before began, and every tenth, and the first of
 * every process, 15 minutes behind where the one that did so before began. Nothing comes twice: an event is made only where
 * what the API shows differs from what was known. An External ID that its record no longer has gets its deletion event at
 * the end of the poll: until then another record may be read that has it now.
 *
 * The very first poll reads everything there is, so that all is known. What changed before the reader's start is no event.
 *
 * An object that the org lacks is left out of a poll: its position, its deletions to come and the time of its last complete
 * poll stay, as if the reader had been absent for this one. All else is read.
 */

/** How far behind its last position a poll looks, in milliseconds. */
const lookBackMs = 120_000;
const lookFarBackMs = 900_000;
const pollsToLookFarBack = 10;
/** Pages of one poll, unless it is still where the next one would begin; the rest is due at once. */
const mostPages = 50;
/** Records and characters of a chunk, which is one transaction. */
const mostRecords = 200;
const mostCharacters = 2 * 1024 * 1024;
/** The CRM remembers deletions for 15 days. */
const longestAbsence = 15 * 86_400;
/** After failures, in seconds. */
const longestPause = 60;
/** So that several writes in a row lead to one check. */
const nudgeMs = 50;
const callMs = 15_000;

interface Reading {
  lease: Lease;
  /** Without those that the poll leaves out. */
  resources: readonly WatchedResource[];
  positions: ReadonlyMap<string, Positions>;
  isLong: boolean;
}

export interface ReaderOptions {
  table: ReaderTable;
  source: ChangeSource;
  resources: readonly WatchedResource[];
  memberChanged: (externalId: string) => Promise<void>;
  pollSeconds: number;
  minimumSeconds: number;
  copyWriter?: CopyWriter | undefined;
  missing?: MissingRecords | undefined;
  log: Log;
  metrics: EventMetrics;
  wake: () => void;
}

export class ChangeReader {
  readonly #options: ReaderOptions;
  readonly #diffs: ReadonlyMap<string, Diff>;
  /** When this replica last heard of a change that no poll has begun after, by `monotonicMs()`. */
  #nudgedAt: number | undefined;
  /** The first poll of a process looks far back: what happened before is not known. */
  #isNew = true;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #state: ReaderState | undefined;
  #stateAt = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#diffs = new Map(options.resources.map((resource) => [resource.name, createDiff(resource)]));
  }

  nudge(): void {
    const isFirst = this.#nudgedAt === undefined;
    this.#nudgedAt = monotonicMs();
    if (isFirst) this.#wakeIn(nudgeMs);
  }

  /** As of the last check; undefined before it. */
  get state(): (ReaderState & { checkedAgo: number }) | undefined {
    return this.#state && { ...this.#state, checkedAgo: (monotonicMs() - this.#stateAt) / 1000 };
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Polls where it is this replica's lease. Throws what the database does. */
  async check(stopping: AbortSignal): Promise<void> {
    const checkedAt = monotonicMs();
    const nudgedAt = this.#nudgedAt;
    const state = await this.#options.table.take(
      nudgedAt !== undefined || this.#isNew,
      this.#options.copyWriter?.lease,
    );
    this.#note(state, checkedAt);
    const { fence } = state;
    if (fence === null) {
      // Another replica's poll that began after the change has seen it.
      const isCovered = checkedAt - (nudgedAt ?? checkedAt) > (state.polledAgo ?? Number.MAX_VALUE) * 1000;
      if (isCovered && this.#nudgedAt === nudgedAt) this.#nudgedAt = undefined;
      this.#wakeIn(1000 * (this.#nudgedAt === undefined ? state.dueIn : Math.min(state.dueIn, state.mayIn)));
      return;
    }
    if (this.#nudgedAt === nudgedAt) this.#nudgedAt = undefined;
    await this.#poll({ ...state, fence }, checkedAt, stopping);
  }

  /** The regular check comes every two seconds: a timer only makes it earlier. */
  #wakeIn(ms: number): void {
    const at = monotonicMs() + ms;
    if (ms > 2000 || (this.#timerAt > monotonicMs() && this.#timerAt <= at)) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(this.#options.wake, Math.max(0, ms) + 5).unref();
  }

  #note(state: ReaderState, checkedAt: number): void {
    this.#state = state;
    this.#stateAt = checkedAt;
    const { metrics, copyWriter } = this.#options;
    const { completedAgo, absentAgo } = state;
    if (completedAgo !== null) metrics.changesReadAt.set(wallMs() / 1000 - completedAgo);
    copyWriter?.reportAge(state.copyAge);
    metrics.changesMissedDeletions.set(isRecentAbsence(absentAgo) ? 1 : 0);
  }

  async #poll(lease: Lease, takenAt: number, stopping: AbortSignal): Promise<void> {
    const { table, log, metrics } = this.#options;
    const isLong = this.#isNew || lease.polls >= pollsToLookFarBack - 1;
    try {
      const isComplete = await this.#readAndKeep(lease, takenAt, isLong, stopping);
      metrics.changePolls.inc({ result: 'ok' });
      if (isComplete) this.#isNew = false;
    } catch (err) {
      if (err instanceof Replaced) return;
      metrics.changePolls.inc({ result: 'failed' });
      log[lease.failures === 0 ? 'warn' : 'debug']({ err }, "couldn't read changes in Salesforce");
      await table.fail(lease.fence, secondsAfter(err, lease.failures, this.#options.pollSeconds));
    }
  }

  /** Whether all was read. Throws as `#readAll`. */
  async #readAndKeep(
    lease: Lease,
    takenAt: number,
    isLong: boolean,
    stopping: AbortSignal,
  ): Promise<boolean> {
    const { table, copyWriter } = this.#options;
    const { fence } = lease;
    const fenced: Fenced = (work) => table.fenced(fence, work);
    const resources = readable(this.#options.resources);
    const reading = { lease, resources, positions: await table.positions(), isLong };
    const hasGap = await this.#noteAbsence(reading);
    await copyWriter?.begin(fence, hasGap, fenced);
    const isComplete = await this.#readAll(reading, takenAt, stopping);
    const areMoreMissing = isComplete && (await this.#endReading(reading, fenced, stopping));
    const isBusy = [await copyWriter?.work(fenced, resources, stopping), areMoreMissing].includes(true);
    const further =
      isComplete && copyWriter
        ? (tx: Database['sql']) => copyWriter.complete(tx, fence, resources)
        : undefined;
    // The rest of what has changed is read as soon as it may be.
    const { mayIn, ...next } = this.#nextPoll();
    const dueIn = isComplete && !isBusy ? next.dueIn : mayIn;
    const completed = isComplete ? namesOf(resources) : undefined;
    await table.finish(fence, { completed, isLong, dueIn, mayIn, further });
    return isComplete;
  }

  async #endReading(reading: Reading, fenced: Fenced, stopping: AbortSignal): Promise<boolean> {
    const { missing } = this.#options;
    const store = async (records: readonly ChangedRecord[]) => {
      if (records.length > 0) await this.#storeChunk(reading, records);
    };
    const areMoreMissing = (await missing?.work(fenced, reading.resources, store, stopping)) === true;
    await this.#addDeletionEvents(reading);
    return areMoreMissing;
  }

  /** Whether deletions of a resource may have been missed. */
  async #noteAbsence({ lease, resources, positions }: Reading): Promise<boolean> {
    const { table, log } = this.#options;
    const seconds = Math.max(0, ...resources.map(({ name }) => positions.get(name)?.completedAgo ?? 0));
    if (seconds <= longestAbsence) return false;
    log.error({ seconds }, "changes weren't read for longer than Salesforce remembers deletions");
    await table.noteAbsence(lease.fence, seconds);
    return true;
  }

  /** Seconds from the beginning of this poll to the next one: more where the CRM's daily calls, or those of the budget, run short. */
  #nextPoll() {
    const { source, pollSeconds, minimumSeconds } = this.#options;
    const factor = stretchFor(source.usage);
    const { leastSeconds = 0 } = source;
    return {
      dueIn: Math.max(leastSeconds, pollSeconds * factor),
      mayIn: Math.max(leastSeconds, minimumSeconds * factor),
    };
  }

  /** Reads and stores page after page; whether nothing is left. Throws what the CRM or the database does, `Replaced`. */
  async #readAll(reading: Reading, takenAt: number, stopping: AbortSignal): Promise<boolean> {
    const { table, source } = this.#options;
    const { lease } = reading;
    const plan = new ReadPlan(reading);
    let startedAt = 0;
    for (let pages = 0; (pages < mostPages || !plan.isAhead) && !stopping.aborted; pages++) {
      const sentAfter = monotonicMs() - takenAt;
      const call = { ...startCall('changes', undefined, callMs), background: 'poll' as const };
      const page = await source.readChanges(plan.left, call);
      if (pages === 0) {
        plan.begin(page.sentAt);
        startedAt = Math.floor((page.sentAt - sentAfter - lease.startedAgo * 1000) / 1000) * 1000;
      }
      for (const records of inChunks(page.records))
        await this.#storeChunk(reading, records, startedAt, plan.advance(records));
      const positions = plan.complete(page.complete);
      if (positions.size > 0) await table.store(lease.fence, { events: [], positions });
      if (plan.left.size === 0) return true;
      if (page.records.length === 0)
        throw new Error('the CRM gave an empty page and says that there are more');
    }
    return false;
  }

  async #storeChunk(
    reading: Reading,
    records: readonly ChangedRecord[],
    startedAt = 0,
    positions: Chunk['positions'] = new Map(),
  ): Promise<void> {
    const { table, metrics, copyWriter } = this.#options;
    const ids = new KnownIds(
      await table.known(records.map(({ resource, ...record }) => ({ ...record, resource: resource.name }))),
    );
    const events = records.flatMap((record) => {
      const diff = this.#diffs.get(record.resource.name) as Diff;
      const isFirst = isFirstOf(reading, record.resource.name);
      const isSilent = isFirst && Date.parse(record.stamp) < startedAt;
      return diff(record, ids, { startedAt: isFirst ? startedAt : 0, isSilent }) ?? [];
    });
    const changes = ids.changes();
    if (!isFirstOf(reading, 'member')) await this.#notifyOfMembers([...changes.known, ...changes.pending]);
    const further = copyWriter && ((transaction: Database['sql']) => copyWriter.keep(transaction, records));
    await table.store(reading.lease.fence, { changes, events, positions, further });
    for (const { type } of events) metrics.changeEvents.inc({ type });
  }

  async #notifyOfMembers(changed: readonly { resource: string; externalId: string }[]): Promise<void> {
    const members = changed.filter(({ resource }) => resource === 'member');
    const ids = new Set(members.map(({ externalId }) => externalId));
    await Promise.all([...ids].map((id) => this.#options.memberChanged(id)));
  }

  async #addDeletionEvents({ lease, resources }: Reading): Promise<void> {
    const { table, metrics } = this.#options;
    const which = { resources: namesOf(resources), limit: mostRecords };
    const toEvents = (pending: readonly PendingDeletion[]) =>
      pending.flatMap((one) => {
        const resource = resources.find(({ name }) => name === one.resource);
        return resource === undefined ? [] : [deletionOf(resource, one)];
      });
    for (let count = mostRecords; count === mostRecords; ) {
      count = await table.takePending(lease.fence, which, async (transaction, pending) => {
        const events = toEvents(pending);
        await addEvents(transaction, events);
        for (const { type } of events) metrics.changeEvents.inc({ type });
      });
    }
  }
}

function isFirstOf({ positions }: Reading, name: string): boolean {
  const { completedAgo = null } = positions.get(name) ?? {};
  return completedAgo === null;
}

export function isRecentAbsence(absentAgo: number | null): boolean {
  return absentAgo !== null && absentAgo < 30 * 86_400;
}

function* inChunks(records: readonly ChangedRecord[]): Generator<ChangedRecord[]> {
  let chunk: ChangedRecord[] = [];
  let characters = 0;
  for (const record of records) {
    const length = Object.values(record.values).reduce((sum, value) => sum + (value?.length ?? 0), 0);
    if (chunk.length === mostRecords || (chunk.length > 0 && characters + length > mostCharacters)) {
      yield chunk;
      chunk = [];
      characters = 0;
    }
    chunk.push(record);
    characters += length;
  }
  if (chunk.length > 0) yield chunk;
}

/** By which all waits grow: 1 up to half of the daily calls, 2 at three quarters, 10 at 95 of 100, at most 60. */
function stretchFor(usage: ChangeSource['usage']): number {
  if (usage === undefined || usage.limit <= 0) return 1;
  const left = Math.max(0, 1 - usage.used / usage.limit);
  return Math.min(60, Math.max(1, 0.5 / left));
}

function secondsAfter(error: unknown, failures: number, pollSeconds: number): number {
  const { retryAfter = 0 } = error instanceof Problem ? error.facts : {};
  const most = Math.max(longestPause, pollSeconds);
  return Math.max(retryAfter, pauseAfter(failures + 1, { first: pollSeconds, most }));
}

/** The CRM's clock and its stamps may differ by this much, in milliseconds. */
const clockMarginMs = 60_000;

/**
 * Where one poll reads, and what its positions become. A record that becomes visible behind the position that this poll has
 * read to is found by later ones: they look back from where this poll began. So no position passes that moment, however
 * long the poll takes.
 */
class ReadPlan {
  readonly #isLong: boolean;
  readonly #left: Map<Resource, ChangePosition>;
  readonly #ahead: ReadonlyMap<Resource, string>;
  #beganAt = 0;

  constructor({ resources, positions, isLong }: Omit<Reading, 'lease'>) {
    this.#isLong = isLong;
    const lookBack = isLong ? lookFarBackMs : lookBackMs;
    this.#left = new Map(
      resources.map((resource) => {
        const position = positions.get(resource.name);
        const from = ((isLong ? position?.readLateTo : position?.readTo) ?? 0) - lookBack;
        return [resource, { stamp: new Date(Math.floor(Math.max(0, from) / 1000) * 1000).toISOString() }];
      }),
    );
    this.#ahead = new Map(
      [...this.#left].map(([resource, { stamp }]) => [
        resource,
        new Date(Date.parse(stamp) + 2 * lookBack).toISOString(),
      ]),
    );
  }

  get left(): ReadonlyMap<Resource, ChangePosition> {
    return this.#left;
  }

  /**
   * Whether the rest can be left to the next poll. It looks back from here, so that one which ends earlier would be
   * followed by others that read the same for ever, where very much has changed within moments.
   */
  get isAhead(): boolean {
    return [...this.#left].every(
      ([resource, { stamp }]) => Date.parse(stamp) >= Date.parse(this.#ahead.get(resource) ?? ''),
    );
  }

  begin(at: number): void {
    this.#beganAt = at;
  }

  advance(records: readonly ChangedRecord[]): Chunk['positions'] {
    const positions: Chunk['positions'] = new Map();
    for (const { resource, stamp, nativeId } of records) {
      this.#left.set(resource, { stamp, nativeId });
      positions.set(resource.name, this.#position(Math.min(Date.parse(stamp), this.#beganAt)));
    }
    return positions;
  }

  complete(resources: ReadonlySet<Resource>): Chunk['positions'] {
    const positions: Chunk['positions'] = new Map();
    for (const resource of resources) {
      this.#left.delete(resource);
      // Where nothing changes, what changed last must not be read for ever.
      positions.set(resource.name, this.#position(this.#beganAt - clockMarginMs));
    }
    return positions;
  }

  #position(to: number) {
    return { readTo: to, readLateTo: this.#isLong ? to : null };
  }
}
