import { randomUUID } from 'node:crypto';
import type { ChangedPage, ChangedRecord, ChangePlace, ChangeSource } from '../../src/resources/changes.ts';
import type { Resource } from '../../src/resources/resource.ts';

/** Rows of one resource in a page. */
const pageSize = 3;

/** A CRM with a clock of its own, in which a change may become visible long after its stamp. */
export class MemoryCrm implements ChangeSource {
  readonly usage = undefined;
  now = Date.UTC(2027, 0, 1);
  calls = 0;
  /** Awaited before each answer; may throw. */
  beforeAnswer: () => Promise<void> = async () => {};
  readonly #rows = new Map<string, ChangedRecord>();
  #late: { at: number; row: ChangedRecord }[] = [];

  /** Changes a record; `lateMs` later it can be seen. False while an earlier change of it cannot be seen yet. */
  write(resource: Resource, nativeId: string, change: Partial<ChangedRecord>, lateMs = 0): boolean {
    if (this.#late.some(({ row }) => row.nativeId === nativeId)) return false;
    const stamp = new Date(Math.floor(this.now / 1000) * 1000).toISOString();
    const before = this.#rows.get(nativeId) ?? newRow(resource, nativeId, stamp);
    this.#late.push({ at: this.now + lateMs, row: { ...before, stamp, ...change } });
    this.pass(0);
    return true;
  }

  pass(ms: number): void {
    this.now += ms;
    for (const { row } of this.#late.filter(({ at }) => at <= this.now)) this.#rows.set(row.nativeId, row);
    this.#late = this.#late.filter(({ at }) => at > this.now);
  }

  get rows(): ChangedRecord[] {
    return [...this.#rows.values()];
  }

  async readChanges(places: ReadonlyMap<Resource, ChangePlace>): Promise<ChangedPage> {
    this.calls += 1;
    const complete = new Set<Resource>();
    const records: ChangedRecord[] = [];
    const sentAt = this.now;
    for (const [resource, place] of places) {
      const behind = this.rows
        .filter((row) => row.resource === resource && isBehind(row, place))
        .sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
      records.push(...behind.slice(0, pageSize));
      if (behind.length < pageSize) complete.add(resource);
    }
    await this.beforeAnswer();
    return { records, complete, sentAt };
  }
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

function isBehind(row: ChangedRecord, { stamp, nativeId }: ChangePlace): boolean {
  return nativeId === undefined ? row.stamp >= stamp : orderOf(row) > `${stamp} ${nativeId}`;
}
