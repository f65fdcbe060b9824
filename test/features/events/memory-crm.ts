import { randomUUID } from 'node:crypto';
import type {
  ChangedPage,
  ChangedRecord,
  ChangePosition,
  ChangeSource,
  IdRange,
  ReadIds,
} from '../../../src/records/changes.ts';
import type { StoredRecord } from '../../../src/records/records.ts';
import type { Resource } from '../../../src/records/resource.ts';

/** Rows of one resource in a page. */
const pageSize = 3;

/** A CRM with a clock of its own, in which a change may become visible long after its stamp. */
export class MemoryCrm implements ChangeSource {
  readonly usage = undefined;
  now = Date.UTC(2027, 0, 1);
  calls = 0;
  /** Awaited before each answer; may throw. */
  beforeAnswer: () => Promise<void> = async () => {};
  #broken: Resource | undefined;
  readonly #rows = new Map<string, ChangedRecord>();
  /** External IDs that no record had at some time, after one had had it. */
  readonly absent = new Set<string>();
  #late: { at: number; row: ChangedRecord }[] = [];
  /** Native ids of records that the reader may not see. */
  readonly hidden = new Set<string>();

  /** Changes a record; `lateMs` later it can be seen. False while an earlier change of it cannot be seen yet. */
  write(resource: Resource, nativeId: string, change: Partial<ChangedRecord>, lateMs = 0): boolean {
    if (this.#late.some(({ row }) => row.nativeId === nativeId)) return false;
    const stamp = new Date(Math.floor(this.now / 1000) * 1000).toISOString();
    const before = this.#rows.get(nativeId) ?? newRow(resource, nativeId, stamp);
    this.#late.push({ at: this.now + lateMs, row: { ...before, stamp, ...change } });
    this.pass(0);
    return true;
  }

  /** Two records swap their External IDs in one transaction; where one is to be deleted, the other has its id then. */
  move(from: ChangedRecord, to: ChangedRecord, how: 'swap' | 'merge', lateMs: number): void {
    const stamp = new Date(Math.floor(this.now / 1000) * 1000).toISOString();
    const as = (row: ChangedRecord, { externalId }: ChangedRecord): ChangedRecord => ({
      ...{ ...row, stamp, externalId },
      values: { ...row.values, id: externalId ?? null },
    });
    const loser = how === 'swap' ? as(from, to) : { ...from, stamp, isDeleted: true };
    const at = this.now + lateMs;
    this.#late.push({ at, row: loser }, { at, row: as(to, from) });
    this.pass(0);
  }

  /** Whether all changes of these records can be seen. */
  isSettled(...nativeIds: string[]): boolean {
    return !this.#late.some(({ row }) => nativeIds.includes(row.nativeId));
  }

  /** Whether another record has this External ID, or is about to: the CRM then refuses to restore the record. */
  isTaken({ nativeId, externalId }: ChangedRecord): boolean {
    return [...this.#rows.values(), ...this.#late.map(({ row }) => row)].some(
      (row) => row.nativeId !== nativeId && row.externalId === externalId && !row.isDeleted,
    );
  }

  /** External IDs that the API shows. */
  get alive(): Set<string> {
    return new Set(this.rows.flatMap(({ isDeleted, externalId }) => (isDeleted ? [] : (externalId ?? []))));
  }

  pass(ms: number): void {
    const before = this.alive;
    this.now += ms;
    for (const { row } of this.#late.filter(({ at }) => at <= this.now)) this.#rows.set(row.nativeId, row);
    this.#late = this.#late.filter(({ at }) => at > this.now);
    for (const id of before) if (!this.alive.has(id)) this.absent.add(id);
  }

  get rows(): ChangedRecord[] {
    return [...this.#rows.values()].filter(({ nativeId }) => !this.hidden.has(nativeId));
  }

  /** Takes an object away until the next call of this, or of another one; undefined: all are there again. */
  breakObject(broken?: Resource): void {
    this.#broken?.fit.set([]);
    this.#broken = broken;
    broken?.fit.set([{ kind: 'absent', column: null, problem: "doesn't exist", needs: ['read'] }]);
  }

  #refuseBroken(asked: Iterable<Resource>): void {
    for (const resource of asked)
      if (resource === this.#broken) throw new Error(`there is no ${resource.crmObject}`);
  }

  /** Hides a record, as sharing does: it does not count as changed, neither then nor when it is visible again. */
  hide(nativeId: string): void {
    const before = this.alive;
    this.hidden.add(nativeId);
    for (const id of before) if (!this.alive.has(id)) this.absent.add(id);
  }

  async readIds(ranges: readonly IdRange[], limit: number): Promise<ReadIds[]> {
    this.#refuseBroken(ranges.map(({ resource }) => resource));
    return ranges.map((range) => idsIn(this.rows, range, limit));
  }

  /** As the CRM looks a record up. */
  async find(resource: Resource, externalId: string): Promise<StoredRecord | undefined> {
    this.#refuseBroken([resource]);
    const row = this.rows.find(
      (one) => one.resource === resource && one.externalId === externalId && !one.isDeleted,
    );
    return row && { nativeId: row.nativeId, values: row.values };
  }

  /** Removes a record without a trace. */
  erase(nativeId: string): void {
    const { isDeleted = true, externalId = '' } = this.#rows.get(nativeId) ?? {};
    if (!isDeleted) this.absent.add(externalId);
    this.#rows.delete(nativeId);
  }

  async readChanges(positions: ReadonlyMap<Resource, ChangePosition>): Promise<ChangedPage> {
    this.calls += 1;
    this.#refuseBroken(positions.keys());
    const complete = new Set<Resource>();
    const records: ChangedRecord[] = [];
    const sentAt = this.now;
    for (const [resource, position] of positions) {
      const behind = this.rows
        .filter((row) => row.resource === resource && isBehind(row, position))
        .sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
      records.push(...behind.slice(0, pageSize));
      if (behind.length < pageSize) complete.add(resource);
    }
    await this.beforeAnswer();
    return { records, complete, sentAt };
  }
}

/** What a CRM with these records answers. */
export function idsIn(
  rows: readonly ChangedRecord[],
  { resource, after, to }: IdRange,
  limit: number,
): ReadIds {
  const all = rows
    .filter((row) => row.resource === resource && !row.isDeleted && row.externalId !== undefined)
    .map(({ nativeId }) => nativeId)
    .filter((id) => id > after && (to === undefined || id <= to))
    .sort((a, b) => (a < b ? -1 : 1));
  return { ids: all.slice(0, limit), isWhole: all.length < limit };
}

function newRow(resource: Resource, nativeId: string, stamp: string): ChangedRecord {
  const externalId = randomUUID();
  return {
    ...{ resource, nativeId, stamp, externalId, isDeleted: false },
    values: { id: externalId, created_at: stamp, updated_at: stamp },
  };
}

function orderOf({ stamp, nativeId }: ChangedRecord): string {
  return `${stamp} ${nativeId}`;
}

function isBehind(row: ChangedRecord, { stamp, nativeId }: ChangePosition): boolean {
  return nativeId === undefined ? row.stamp >= stamp : orderOf(row) > `${stamp} ${nativeId}`;
}
