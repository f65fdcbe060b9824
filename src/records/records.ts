import type { Call } from '../platform/base/call.ts';
import type { Problem } from '../platform/base/problem.ts';
import type { Resource } from './resource.ts';

/** Seconds after which a call that was given up can't create a record any more. */
export const lateSeconds = 120;

/**
 * The port through which the API and the hand-off reach business records, wherever they live. Values are keyed by
 * the API's field names; timestamps are RFC 3339 UTC with milliseconds; `details` is JSON text, never parsed.
 * Every method throws `Problem` with a code of the CRM (crm_rejected, crm_unavailable, crm_timeout ...).
 */
export interface Records {
  /** Throws `crm_unavailable` where a call would be refused at once: the CRM is unavailable or the queue is full. */
  admit(call: Call): void;
  /**
   * The time by the clock that sets `updated_at`, in milliseconds since 1970: up to a second late, never early. `call`: for whose
   * records; without it the live ones.
   */
  now(call?: Call): number;
  /**
   * Inserts a record with the External ID in its unique field, so that any number of repeats makes one record. Where the
   * record exists already, that is the result. With `mayExist` it is looked up first, in the recycle bin too: the unique field
   * does not prevent a second record once the first one was deleted. A record that was created and deleted is a result too. Throws
   * `member_not_found`, `offer_expired`.
   */
  create(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    options?: CreateOptions & ReadBack,
  ): Promise<(RecordRef | StoredRecord) & Found>;
  /**
   * Inserts and changes records of several resources in one call that rolls back: all of them or none; at most 25. Returns
   * references in the order of `writes`. Throws `WritesRefused` for refusals, and `Problem` for all else. What became of a write of unknown outcome is not looked up.
   */
  writeTogether(
    writes: readonly RecordWrite[],
    call: Call,
    options?: ReadBack,
  ): Promise<(RecordRef | StoredRecord)[]>;
  listTogether(lists: readonly RecordList[], call: Call): Promise<RecordPage[]>;
  /** Records of several resources in one call, those in the recycle bin too, in the order of the keys. */
  findTogether(keys: readonly RecordKey[], call: Call): Promise<(StoredRecord | undefined)[]>;
  /** Reads the record in the same call where possible. Undefined: it was made, and cannot be read. */
  createAndRead(
    resource: Resource,
    externalId: string,
    values: FieldValues,
    call: Call,
    options?: CreateOptions,
  ): Promise<StoredRecord | undefined>;
  find(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined>;
  /** Includes records in the recycle bin, which the CRM keeps for 15 days. */
  findWithDeleted(resource: Resource, externalId: string, call: Call): Promise<StoredRecord | undefined>;
  /** Newest first, ties broken by External ID (descending too). */
  list(resource: Resource, query: ListQuery, call: Call): Promise<RecordPage>;
  /**
   * Replaces the given fields. Throws `not_found` where the record is gone. Given the record as it was read, a change
   * whose answer was lost is checked, and repeated where it was not done. Given only its reference, it may end with
   * `outcomeUnknown`.
   */
  update(
    resource: Resource,
    record: RecordRef | StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<void>;
  /** Undefined: the record was deleted meanwhile. */
  updateAndRead(
    resource: Resource,
    record: StoredRecord,
    values: FieldValues,
    call: Call,
  ): Promise<StoredRecord | undefined>;
  /** Throws `not_found` where the record is gone. */
  remove(resource: Resource, ref: RecordRef, call: Call): Promise<void>;
}

export interface MayExist {
  /** An earlier attempt of unknown outcome may have created it. */
  mayExist?: boolean | undefined;
}

export interface Found {
  /** `after loss`: an earlier call of unknown outcome may have made it. */
  found?: 'there' | 'after loss' | undefined;
}

export interface RecordList {
  resource: Resource;
  query: ListQuery;
}

export interface RecordKey {
  resource: Resource;
  externalId: string;
}

export interface RecordWrite extends RecordKey {
  values: FieldValues;
  /** Undefined for a new one. */
  record?: StoredRecord | undefined;
  /** Milliseconds since 1970: from then on the call is not sent. */
  validUntil?: number | undefined;
}

export interface WriteRefusal {
  index: number;
  problem: Problem;
  /** A record with its External ID, or another unique value, is there. */
  isDuplicate: boolean;
}

/** Refusals of some of several writes, of which none was done; at least one. */
export class WritesRefused extends Error {
  override readonly name = 'WritesRefused';
  readonly refusals: readonly WriteRefusal[];

  constructor(refusals: readonly WriteRefusal[]) {
    super('writes were refused');
    this.refusals = refusals;
  }
}

export interface CreateOptions extends MayExist {
  /**
   * Milliseconds since 1970 by the clock of the database: a deleted record that is older is no result. For External IDs under
   * which a record may be made again.
   */
  madeSince?: number | undefined;
  /** Milliseconds since 1970, by the clock of the service: from then on no call that creates the record is sent. */
  validUntil?: number | undefined;
  /** Fields whose values the caller can't change: that the CRM refuses one is none of its doing. */
  ofService?: readonly string[];
}

/** The clocks of the database and of the CRM differ by less than this, in milliseconds. */
const mostSkewMs = 60_000;

/** Whether a deleted record is none that was made since then: see `CreateOptions`. */
export function isFromBefore({ isDeleted, values }: StoredRecord, madeSince: number | undefined): boolean {
  const madeAt = Date.parse(values['created_at'] ?? '');
  return isDeleted === true && madeSince !== undefined && madeAt < madeSince - mostSkewMs;
}

export interface ReadBack {
  readBack?: boolean;
}

export type FieldValues = Readonly<Record<string, string | null>>;

export interface RecordRef {
  /** The CRM's own identifier. It leaves the service in the hand-off's answer only. */
  nativeId: string;
}

export interface Aged {
  /** Seconds since the CRM had it so; undefined where the CRM answered. */
  ageSeconds?: number;
}

/** Age of what is made of several parts. */
export function oldest(parts: readonly (Aged | undefined)[]): Aged {
  const ages = parts.flatMap((part) => part?.ageSeconds ?? []);
  return ages.length === 0 ? {} : { ageSeconds: Math.max(...ages) };
}

export interface StoredRecord extends RecordRef, Aged {
  /** All fields of the resource; null where the CRM has none or holds something of another type. */
  values: FieldValues;
  links?: Links;
  isDeleted?: boolean;
}

/** The CRM's own ids of the records that fields name by their External ID; null where they name none. */
export type Links = Readonly<Record<string, string | null>>;

export interface ListQuery {
  filters: FieldValues;
  /** Only records with this in one of their searched texts, whatever its case; no white space at its ends. */
  search?: string;
  /**
   * Only records changed then or later (RFC 3339 UTC, whole seconds): those that changed first come first, ties broken by
   * External ID, ascending too.
   */
  updatedSince?: string;
  after?: { at: string; id: string };
  limit: number;
  /** Most bytes of all records together, as `represent` writes them in UTF-8; a first record may have more. */
  maxBytes: number;
  /** Called for each record as it is read; only what it makes of it is kept. */
  represent: (values: FieldValues) => string;
}

export interface ListedRecord {
  id: string;
  at: string;
  /** The record as `represent` wrote it, in UTF-8. */
  json: Buffer;
}

export interface RecordPage extends Aged {
  records: ListedRecord[];
  hasMore: boolean;
}

/** Makes a page of records that are added in its order. `add` refuses the first one that it has no room for: it is full then. */
export function startPage({ limit, maxBytes, represent, updatedSince }: ListQuery) {
  const orderedBy = updatedSince === undefined ? 'created_at' : 'updated_at';
  const page: RecordPage = { records: [], hasMore: false };
  const { records } = page;
  let bytes = 0;
  return {
    page,
    add(values: FieldValues): boolean {
      const json = Buffer.from(represent(values));
      page.hasMore = records.length === limit || (records.length > 0 && bytes + json.length > maxBytes);
      if (page.hasMore) return false;
      bytes += json.length;
      records.push({ id: values['id'] as string, at: values[orderedBy] as string, json });
      return true;
    },
  };
}
