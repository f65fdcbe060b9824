import { type Call, startCall } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import type { Log } from '../../platform/observability/log.ts';
import type { ChangedRecord, ChangeSource, IdRange } from '../../records/changes.ts';
import type { Records, StoredRecord } from '../../records/records.ts';
import { namesOf, type Resource } from '../../records/resource.ts';
import { type CopyWriter, type Fenced, Replaced } from './copy-writer.ts';
import type { ComparisonPosition, MissingRecord, MissingTable } from './missing-table.ts';

/*
 * Salesforce reports no deletion of a record that is removed without passing through the recycle bin (hard delete). Such a
 * record is noted as missing when the CRM answers a request with 404, and by a regular comparison of all known ids with those
 * of the CRM. The next poll looks it up by its External ID, and handles it like any other deletion.
 */

/** Seconds between the starts of two comparisons: less than a day, since a comparison may take some hours. */
const compareEverySeconds = 20 * 3600;
/** Ids in a page of the CRM; known ids per query, fewer since the CRM may have further ones; queries per call. */
const idsOfPage = 2000;
const idsOfQuery = 1900;
const queriesOfCall = 5;
const mostCalls = 10;
const longestMs = 10_000;
const lookedUpAtOnce = 200;
const lookedUpInPoll = 1000;
const callMs = 15_000;

interface MissingRecordsOptions {
  table: MissingTable;
  source: Pick<ChangeSource, 'readIds'>;
  records: Pick<Records, 'find' | 'now'>;
  resources: readonly Resource[];
  copyWriter?: CopyWriter | undefined;
  log: Log;
}

type Store = (records: readonly ChangedRecord[]) => Promise<void>;

export class MissingRecords {
  readonly #options: MissingRecordsOptions;

  constructor(options: MissingRecordsOptions) {
    this.#options = options;
  }

  /**
   * For one poll that has read these resources: compares if that is due, and looks up. Whether there is more to look up.
   * Throws `Replaced`.
   */
  async work(
    fenced: Fenced,
    read: readonly Resource[],
    store: Store,
    stopping: AbortSignal,
  ): Promise<boolean> {
    try {
      await this.#compare(fenced, read, stopping);
      return await this.#lookUp(fenced, read, store, stopping);
    } catch (err) {
      if (err instanceof Replaced) throw err;
      this.#options.log.warn(
        { err },
        "couldn't look up records that may be deleted; the next poll tries again",
      );
      return false;
    }
  }

  async #lookUp(
    fenced: Fenced,
    read: readonly Resource[],
    store: Store,
    stopping: AbortSignal,
  ): Promise<boolean> {
    const { table, records } = this.#options;
    const waiting = await table.waiting(namesOf(read), lookedUpInPoll);
    for (let start = 0; start < waiting.length && !stopping.aborted; start += lookedUpAtOnce) {
      const some = waiting.slice(start, start + lookedUpAtOnce);
      const lookUps = await Promise.all(
        some.map(async (missing) => {
          const resource = read.find(({ name }) => name === missing.resource);
          const found = resource && (await records.find(resource, missing.externalId, backgroundCall()));
          return { missing, resource, found };
        }),
      );
      await store(
        lookUps.flatMap(({ missing, resource, found }) => {
          const isThere = found?.nativeId === missing.nativeId;
          return isThere !== missing.isDeleted || !resource
            ? []
            : [toChange(resource, missing, found, records.now())];
        }),
      );
      await fenced((transaction) => table.clear(transaction, some));
    }
    return waiting.length === lookedUpInPoll;
  }

  async #compare(fenced: Fenced, read: readonly Resource[], stopping: AbortSignal): Promise<void> {
    const began = monotonicMs();
    for (let calls = 0; calls < mostCalls; calls++) {
      const position = await this.#options.table.comparison(compareEverySeconds);
      if (position === undefined || stopping.aborted || monotonicMs() - began > longestMs) return;
      await this.#compareSome(position, read, fenced);
    }
  }

  async #compareSome(
    from: ComparisonPosition | null,
    read: readonly Resource[],
    fenced: Fenced,
  ): Promise<void> {
    const { table, source, copyWriter } = this.#options;
    const ranges = await this.#rangesFrom(from, read);
    // All that is left is of resources that can't be read.
    if (ranges.length === 0)
      return fenced((transaction) => table.move(transaction, null, { isBegun: false }));
    const answers = await source.readIds(ranges, idsOfPage, backgroundCall());
    if (answers.some(({ ids, isWhole }) => !isWhole && ids.length === 0))
      throw new Error('the CRM gave no ids and says that there are more');
    await fenced(async (transaction) => {
      for (const [index, range] of ranges.entries()) {
        const { ids = [], isWhole = false } = answers[index] ?? {};
        // The CRM has more ids than fit into a page: the next call goes on after the last of these.
        const to = isWhole ? range.to : ids.at(-1);
        const { resource, after } = range;
        const compared = { resource, after, ...(to !== undefined && { to }) };
        await table.noteMissingInRange(transaction, compared, ids);
        await copyWriter?.compare(transaction, compared, ids);
        await table.move(transaction, this.#positionAfter(compared), {
          isBegun: from === null && index === 0,
        });
        if (!isWhole) return;
      }
    });
  }

  async #rangesFrom(from: ComparisonPosition | null, read: readonly Resource[]): Promise<IdRange[]> {
    const { table, resources } = this.#options;
    const ranges: IdRange[] = [];
    const first = from === null ? 0 : resources.findIndex(({ name }) => name === from.resource);
    for (const resource of resources.slice(Math.max(0, first))) {
      if (!read.includes(resource)) continue;
      let after = resource.name === from?.resource ? from.after : '';
      const ids = await table.idsAfter(
        { resource: resource.name, after },
        idsOfQuery * (queriesOfCall - ranges.length),
      );
      for (let start = 0; ranges.length < queriesOfCall; start += idsOfQuery) {
        const to = ids[start + idsOfQuery - 1];
        ranges.push({ resource, after, ...(to !== undefined && { to }) });
        if (to === undefined) break;
        after = to;
      }
      if (ranges.length === queriesOfCall) break;
    }
    return ranges;
  }

  #positionAfter({ resource, to }: IdRange): ComparisonPosition | null {
    if (to !== undefined) return { resource: resource.name, after: to };
    const { resources } = this.#options;
    const next = resources[resources.indexOf(resource) + 1];
    return next === undefined ? null : { resource: next.name, after: '' };
  }
}

function toChange(
  resource: Resource,
  { nativeId, externalId }: MissingRecord,
  found: StoredRecord | undefined,
  now: number,
): ChangedRecord {
  const stamp = new Date(Math.floor(now / 1000) * 1000).toISOString();
  if (found === undefined) return { resource, nativeId, externalId, isDeleted: true, stamp, values: {} };
  return { resource, externalId, isDeleted: false, stamp: found.values['updated_at'] ?? stamp, ...found };
}

function backgroundCall(): Call {
  return { ...startCall('changes', undefined, callMs), background: 'batch' };
}
