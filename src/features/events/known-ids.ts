export interface Known {
  externalId: string;
  consumerId: string | null;
  /** Hash of what the API shows, without the time of its last change. */
  content: string;
  /** JSON: a hash of each field that the API shows, by its name, and `content` by the empty one; null where it is not known. */
  parts: string | null;
  isDeleted: boolean;
}

export interface RecordKey {
  resource: string;
  nativeId: string;
}

export type KnownRecord = RecordKey & Known;

/** An External ID whose record no longer has it: deleted at the end of the poll, unless another record has it by then. */
export interface PendingDeletion {
  resource: string;
  externalId: string;
  consumerId: string | null;
  /** As in `Known`; null where the record had no event. */
  content: string | null;
  /** RFC 3339. */
  lostAt: string;
}

export interface KnownState {
  records: readonly KnownRecord[];
  pending: readonly PendingDeletion[];
}

export interface KnownChanges {
  known: readonly KnownRecord[];
  /** Records that now belong to another consumer than what had their External ID before. */
  withNewOwner: readonly KnownRecord[];
  pending: readonly PendingDeletion[];
  noLongerPending: readonly PendingDeletion[];
}

/**
 * Known records and pending deletions, updated change by change. An External ID belongs to one record at a time: a record
 * that is read with it takes it from the record that had it before, whose own change may be read later or never.
 */
export class KnownIds {
  readonly #records = new Map<string, KnownRecord>();
  readonly #holders = new Map<string, KnownRecord>();
  readonly #pending = new Map<string, PendingDeletion>();
  readonly #changed = new Set<string>();
  readonly #noLongerPending = new Map<string, PendingDeletion>();
  /** By External ID. */
  readonly #withNewOwner = new Map<string, KnownRecord>();

  constructor({ records, pending }: KnownState) {
    for (const record of records) {
      this.#records.set(keyOf(record), record);
      if (!record.isDeleted) this.#holders.set(idOf(record), record);
    }
    for (const one of pending) this.#pending.set(idOf(one), one);
  }

  record(key: RecordKey): KnownRecord | undefined {
    return this.#records.get(keyOf(key));
  }

  /** Content of the last event of an External ID; undefined where it is deleted, or had no event. */
  announced(id: {
    resource: string;
    externalId: string;
  }): { content: string; parts: string | null } | undefined {
    const holder = this.#holders.get(idOf(id));
    if (holder !== undefined) return holder;
    const { content = null } = this.#pending.get(idOf(id)) ?? {};
    return content === null ? undefined : { content, parts: null };
  }

  isHeld(id: { resource: string; externalId: string }): boolean {
    return this.#holders.has(idOf(id));
  }

  set(record: KnownRecord): void {
    const before = this.#records.get(keyOf(record));
    const owned = [before, this.#holders.get(idOf(record)), this.#pending.get(idOf(record))].find(
      (each) => each?.externalId === record.externalId,
    );
    if (owned !== undefined && owned.consumerId !== record.consumerId && !record.isDeleted)
      this.#withNewOwner.set(idOf(record), record);
    if (before !== undefined && this.#holders.get(idOf(before)) === before)
      this.#holders.delete(idOf(before));
    this.#put(record);
    if (record.isDeleted) return;
    const holder = this.#holders.get(idOf(record));
    if (holder !== undefined) this.#put({ ...holder, isDeleted: true });
    this.#holders.set(idOf(record), record);
    const pending = this.#pending.get(idOf(record));
    if (pending === undefined) return;
    this.#pending.delete(idOf(record));
    this.#noLongerPending.set(idOf(record), pending);
  }

  addPending(pending: PendingDeletion): void {
    this.#noLongerPending.delete(idOf(pending));
    this.#pending.set(idOf(pending), pending);
  }

  changes(): KnownChanges {
    return {
      known: [...this.#changed].flatMap((key) => this.#records.get(key) ?? []),
      withNewOwner: [...this.#withNewOwner.values()],
      pending: [...this.#pending.values()],
      noLongerPending: [...this.#noLongerPending.values()],
    };
  }

  #put(record: KnownRecord): void {
    this.#records.set(keyOf(record), record);
    this.#changed.add(keyOf(record));
  }
}

function keyOf({ resource, nativeId }: RecordKey): string {
  return `${resource} ${nativeId}`;
}

function idOf({ resource, externalId }: { resource: string; externalId: string }): string {
  return `${resource} ${externalId}`;
}
