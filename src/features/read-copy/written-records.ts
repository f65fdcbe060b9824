import type { Call } from '../../platform/base/call.ts';
import { monotonicMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { memberValues } from '../../records/members.ts';
import {
  type Aged,
  type FieldValues,
  type ListQuery,
  oldest,
  type RecordList,
  type RecordPage,
  type RecordRef,
  type Records,
  type RecordWrite,
  type StoredRecord,
  startPage,
  WritesRefused,
} from '../../records/records.ts';
import type { Resource } from '../../records/resource.ts';
import type { Accepted, CopiedReads } from './copied-records.ts';
import { type CopiedRow, rowOf } from './copied-row.ts';

/** Notes what a write left behind. Never throws. */
type Note = (row: CopiedRow) => Promise<void>;

/** An acknowledged write may be missing from what is known of a record that is stale. Never throws. */
type Doubt = (resource: Resource, externalId: string) => Promise<void>;

type Written = RecordRef | StoredRecord | 'gone' | undefined;

/**
 * The records of the CRM, with reads from the copy where a request takes an answer of some age. Writes read back what they
 * wrote, in the same call, and note it in the copy before they are acknowledged. A write whose outcome is not known marks
 * its record as stale.
 */
export function withCopy(
  records: Records,
  reads: CopiedReads,
  { note, doubt }: { note: Note; doubt: Doubt },
): Records {
  const noting = createNoting(note);
  return {
    admit: (call) => records.admit(call),
    now: () => records.now(),
    create: (resource, externalId, values, call, options) =>
      noting(resource, { externalId: externalId.toLowerCase() }, () =>
        records.create(resource, externalId, values, call, { ...options, readBack: true }),
      ),
    createAndRead: (resource, externalId, values, call, options) =>
      noting(resource, { externalId: externalId.toLowerCase() }, () =>
        records.createAndRead(resource, externalId, values, call, options),
      ),
    async update(resource, record, values, call) {
      await noting(resource, nameOf(record), async () => {
        if ('values' in record) return records.updateAndRead(resource, record, values, call);
        await records.update(resource, record, values, call);
        return undefined;
      });
    },
    updateAndRead: (resource, record, values, call) =>
      noting(resource, nameOf(record), () => records.updateAndRead(resource, record, values, call)),
    ...createReading(records, reads, { note, doubt }),
    writeTogether: (writes, call) =>
      notingAll(note, writes, () => records.writeTogether(writes, call, { readBack: true })),
    async remove(resource, ref, call) {
      await noting(resource, nameOf(ref), async () => {
        await records.remove(resource, ref, call);
        return 'gone' as const;
      });
    },
  };
}

type Reading = Pick<Records, 'find' | 'findWithDeleted' | 'findTogether' | 'list' | 'listTogether'>;

function createReading(
  records: Records,
  reads: CopiedReads,
  { note, doubt }: { note: Note; doubt: Doubt },
): Reading {
  /** Notes what the CRM has, which a repeat of a write without an answer may acknowledge by this. */
  const noteFound = (resource: Resource, id: string, written: StoredRecord, since: number) =>
    note(rowOf(resource, { externalId: id.toLowerCase() }, { written, since }));
  return {
    async find(resource, externalId, call) {
      const found = await findCopied(reads, resource, { externalId, call });
      if (found !== undefined) return found.record;
      const record = await orStale(
        call,
        () => records.find(resource, externalId, call),
        async (taken) => {
          // A record that nobody has seen is no answer to an error: the caller might make it once more.
          const stale = await findCopied(reads, resource, {
            externalId,
            call: taken,
            accepted: 'last known',
          });
          return stale?.record;
        },
      );
      // A repeat of a write without an answer may acknowledge by this what was written.
      if (record !== undefined && call.freshness === undefined) await doubt(resource, externalId);
      return record;
    },
    async findWithDeleted(resource, externalId, call) {
      const since = monotonicMs();
      const found = await records.findWithDeleted(resource, externalId, call);
      if (found !== undefined) await noteFound(resource, externalId, found, since);
      return found;
    },
    async findTogether(keys, call) {
      const since = monotonicMs();
      const found = await records.findTogether(keys, call);
      await Promise.all(
        keys.flatMap(({ resource, externalId }, index) => {
          const record = found[index];
          return record ? [noteFound(resource, externalId, record, since)] : [];
        }),
      );
      return found;
    },
    async listTogether(lists, call) {
      const found = await allCopied(reads, lists, { call });
      const ask = () => records.listTogether(lists, call);
      const stale = (taken: Call) => allCopied(reads, lists, { call: taken, accepted: 'last known' });
      return found ?? orStale(call, ask, stale);
    },
    async list(resource, query, call) {
      const found = await listCopied(reads, resource, { query, call });
      const ask = () => records.list(resource, query, call);
      const stale = (taken: Call) =>
        listCopied(reads, resource, { query, call: taken, accepted: 'last known' });
      return found ?? orStale(call, ask, stale);
    },
  };
}

/** Undefined where one of the lists is not there. */
async function allCopied(
  reads: CopiedReads,
  lists: readonly RecordList[],
  asked: Asked,
): Promise<RecordPage[] | undefined> {
  const pages = await Promise.all(
    lists.map(({ resource, query }) => listCopied(reads, resource, { query, ...asked })),
  );
  const found = pages.filter((page) => page !== undefined);
  return found.length === lists.length ? found : undefined;
}

/** The copy's answer where the CRM fails, if the request takes an answer of that age then. */
async function orStale<T>(
  call: Call,
  ask: () => Promise<T>,
  fromCopy: (taken: Call) => Promise<T | undefined>,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const maxAgeSeconds = call.freshness?.staleIfErrorSeconds;
    const isFailure = error instanceof Problem && error.status >= 500;
    if (maxAgeSeconds === undefined || !isFailure) throw error;
    const found = await fromCopy({ ...call, freshness: { maxAgeSeconds } });
    if (found === undefined) throw error;
    return found;
  }
}

function nameOf(record: RecordRef | StoredRecord): { nativeId: string; externalId: string } {
  return { nativeId: record.nativeId, externalId: ('values' in record && record.values['id']) || '' };
}

function createNoting(note: Note) {
  return async <W extends Written>(
    resource: Resource,
    known: { nativeId?: string; externalId?: string },
    write: () => Promise<W>,
  ): Promise<W> => {
    const since = monotonicMs();
    try {
      const written = await write();
      await note(rowOf(resource, known, { written, since }));
      return written;
    } catch (error) {
      if (isOutcomeUnknown(error))
        await note(rowOf(resource, known, { written: undefined, since, isAcknowledged: false }));
      throw error;
    }
  };
}

async function notingAll(
  note: Note,
  writes: readonly RecordWrite[],
  write: () => Promise<(RecordRef | StoredRecord)[]>,
) {
  const since = monotonicMs();
  const noteAll = (written: readonly Written[]) =>
    Promise.all(
      writes.map(({ resource, externalId, record }, index) => {
        const known = record ? nameOf(record) : { externalId: externalId.toLowerCase() };
        const isAcknowledged = written.length > 0;
        return note(rowOf(resource, known, { written: written[index], since, isAcknowledged }));
      }),
    );
  try {
    const written = await write();
    await noteAll(written);
    return written;
  } catch (error) {
    if (!(error instanceof WritesRefused) && isOutcomeUnknown(error)) await noteAll([]);
    throw error;
  }
}

/** The write may have been done, or somebody else has deleted the record. */
function isOutcomeUnknown(error: unknown): boolean {
  if (!(error instanceof Problem)) return true;
  return error.facts.outcomeUnknown === true || error.code === 'not_found';
}

interface Asked {
  call: Call;
  accepted?: Accepted | undefined;
}

async function findCopied(
  reads: CopiedReads,
  resource: Resource,
  { externalId, call, accepted }: Asked & { externalId: string },
): Promise<{ record: StoredRecord | undefined } | undefined> {
  const { included } = resource;
  if (included === undefined) return reads.find(resource, externalId, call, accepted);
  const found = await reads.find(included.base, externalId, call, accepted);
  if (found?.record === undefined) return found;
  const all = await withMembers(reads, included.member, [found.record.values], { call, accepted });
  const [values] = all?.records ?? [];
  return values && { record: { ...found.record, values, ...oldest([found.record, all]) } };
}

async function listCopied(
  reads: CopiedReads,
  resource: Resource,
  { query, call, accepted }: Asked & { query: ListQuery },
): Promise<RecordPage | undefined> {
  const { included } = resource;
  if (included === undefined) return reads.list(resource, query, call, accepted);
  const listed: FieldValues[] = [];
  const represent = (values: FieldValues) => {
    listed.push(values);
    return query.represent(values);
  };
  const found = await reads.list(included.base, { ...query, represent }, call, accepted);
  if (found === undefined) return undefined;
  const records = listed.slice(0, found.records.length);
  const all = await withMembers(reads, included.member, records, { call, accepted });
  if (all === undefined) return undefined;
  const { page, add } = startPage(query);
  const isWhole = all.records.every((values) => add(values));
  return { ...found, records: page.records, hasMore: found.hasMore || !isWhole, ...oldest([found, all]) };
}

/**
 * Values with those of the member, which is a row of its own in the copy, and the age of the oldest of these rows; undefined where the
 * copy can't answer for both alike.
 */
async function withMembers(
  reads: CopiedReads,
  member: Resource,
  records: readonly FieldValues[],
  { call, accepted }: Asked,
): Promise<({ records: FieldValues[] } & Aged) | undefined> {
  const ids = [...new Set(records.flatMap((values) => values['member_id'] ?? []))];
  // A caller that sees only its own records sees every member: the permission was checked before.
  const taken = { ...call, visible: () => 'all' as const };
  const found = await Promise.all(ids.map((id) => reads.find(member, id, taken, accepted)));
  if (found.includes(undefined)) return undefined;
  const members = new Map(ids.map((id, index) => [id, found[index]?.record?.values]));
  return {
    records: records.map((values) => ({
      ...values,
      ...memberValues(members.get(values['member_id'] ?? '')),
    })),
    ...oldest(found.map((one) => one?.record)),
  };
}
