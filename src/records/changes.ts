import type { Call } from '../platform/base/call.ts';
import type { FieldValues, Links } from './records.ts';
import type { Resource } from './resource.ts';

export interface ChangeSource {
  /**
   * One call for what has changed in all these resources; of each in the order of stamp and native id, behind its position.
   * Ends early where it would hold too much at once. Throws `Problem` with a code of the CRM.
   */
  readChanges(positions: ReadonlyMap<Resource, ChangePosition>, call: Call): Promise<ChangedPage>;
  /**
   * Reads the ids of the records in at most five ranges with one call, in the order of the ids, at most `limit` of each
   * range. Throws as `readChanges`.
   */
  readIds(ranges: readonly IdRange[], limit: number, call: Call): Promise<ReadIds[]>;
  /** Use of the CRM's daily quota of calls; undefined before it reported any. */
  readonly usage: { used: number; limit: number } | undefined;
  /** Seconds that must lie between two polls, for the budget of calls; none where there is no budget. */
  readonly leastSeconds?: number;
}

/** Records of a resource with an External ID, by native id: greater than `after`, and at most `to` where it is given. */
export interface IdRange {
  resource: Resource;
  after: string;
  to?: string;
}

export interface ReadIds {
  ids: string[];
  isWhole: boolean;
}

/** A position among the changes of a resource: before all with this stamp, or, with an id, right behind that record. */
export interface ChangePosition {
  /** RFC 3339; whole seconds count. */
  stamp: string;
  nativeId?: string;
}

export interface ChangedPage {
  records: ChangedRecord[];
  complete: ReadonlySet<Resource>;
  /** When the call was sent, by the CRM's clock, in milliseconds since 1970: up to a second early, never late. */
  sentAt: number;
}

export interface ChangedRecord {
  resource: Resource;
  nativeId: string;
  /** When it last changed, deletion included; RFC 3339, whole seconds. A long transaction becomes visible later. */
  stamp: string;
  isDeleted: boolean;
  /** Undefined where it has none, or no UUID: the API does not know the record. */
  externalId: string | undefined;
  values: FieldValues;
  links?: Links;
}

/** An External ID for which the CRM has no record. `madeBy`: only a record of this consumer is known to be missing. */
export interface MissingId {
  resource: string;
  externalId: string;
  madeBy: string | null;
}

/** For a caller that sees only its own records, a record of another consumer may still exist. */
export function missingIdOf(resource: Resource, externalId: string, call: Call): MissingId {
  const visible = call.visible(resource.collection);
  return { resource: resource.name, externalId, madeBy: visible === 'all' ? null : visible.consumerId };
}
