import { hash } from 'node:crypto';
import type { Claim } from '../../api/idempotency/ledger.ts';
import type { Call } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { hasValues } from '../../records/field-values.ts';
import {
  type Found,
  isFromBefore,
  type RecordRef,
  type RecordWrite,
  type StoredRecord,
  WritesRefused,
} from '../../records/records.ts';
import { isUnknown } from '../handoff/deliver.ts';
import {
  explain,
  type HandoffConfirmation,
  type HandoffCrm,
  type HandoffRequest,
  type HandoffType,
  isOwnMaking,
  requireValid,
  updateOf,
  valuesOf,
} from '../handoff/handoff.ts';
import type { Handoffs } from '../handoff/handoffs.ts';
import { withoutHidden } from '../handoff/routes/handoff.ts';
import { placed, togetherOf } from './refusals.ts';

/** A result of the trip, and the External ID of its record. */
export interface TripItem {
  request: HandoffRequest;
  externalId: string;
  needsApproval: boolean;
}

/** What became of an item. */
export type ItemAnswer =
  | HandoffConfirmation
  | { type: HandoffType; status: 'accepted' | 'awaiting_approval'; external_id: string };

export interface TripParts extends HandoffCrm {
  handoffs: Handoffs;
}

/** The request that hands the items off. */
export interface TripRequest {
  claim: Claim | undefined;
  call: Call;
}

/** Looks and writes once more where another request makes the same items meanwhile, so many times. */
const mostRounds = 3;

/** The External ID of an item without a reference: the same for each repeat of a request. UUID of version 8 (RFC 9562 section 5.8). */
export function idInTrip(root: string, position: number): string {
  const hex = hash('sha256', `${root} ${position}`);
  const variant = ((Number.parseInt(hex[16] as string, 16) & 3) | 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

/**
 * Hands all items off in one call to the CRM that rolls back, or none: what is there already is looked up only if the CRM says
 * so. Throws `Problem` with pointers under `#/items`.
 */
export async function handOffTogether(
  parts: TripParts,
  items: readonly TripItem[],
  request: TripRequest,
): Promise<ItemAnswer[]> {
  const { call } = request;
  const placedAt: PlacedAt = (error, item) =>
    refusalOfItem(parts, error, { item, index: items.indexOf(item), call });
  const waiting = await ofEach(items, (item) => waitingAnswer(parts, item, call), placedAt);
  const open = items.filter((_, index) => waiting[index] === undefined);
  const since = request.claim?.since ?? wallMs();
  const written = await writeOpen(parts, { open, since, placedAt }, request);
  return items.map((item, index) => waiting[index] ?? (written[open.indexOf(item)] as ItemAnswer));
}

/** The answer for an item whose hand-off waits already. */
async function waitingAnswer(
  { handoffs }: TripParts,
  { request, externalId, needsApproval }: TripItem,
  call: Call,
): Promise<ItemAnswer | undefined> {
  const status = await handoffs.meetStored({ externalId, needsApproval }, request, call);
  return status && { type: request.type, status, external_id: externalId };
}

type Known = ReadonlyMap<TripItem, StoredRecord & Found>;

type PlacedAt = (error: unknown, item: TripItem) => unknown;

interface OpenItems {
  /** Those for which no hand-off waits. */
  open: readonly TripItem[];
  /** Milliseconds since 1970: no earlier try was made before. */
  since: number;
  placedAt: PlacedAt;
}

async function writeOpen(
  parts: TripParts,
  { open, since, placedAt }: OpenItems,
  { claim, call }: TripRequest,
): Promise<ItemAnswer[]> {
  let known: Known = claim?.continued
    ? await lookUp(parts, open, { found: 'after loss', since }, call)
    : new Map();
  for (let round = 1; ; round++) {
    const plan = await ofEach(open, (item) => planOf(parts, item, known.get(item), since), placedAt);
    const writes = plan.flatMap(({ write }) => write ?? []);
    await claim?.confirmOwnership();
    try {
      const refs = writes.length === 0 ? [] : await parts.records.writeTogether(writes, call);
      return plan.map(({ item, write, status }) => {
        const ref = write ? refs[writes.indexOf(write)] : known.get(item);
        return answerOf(item, ref as RecordRef, status);
      });
    } catch (error) {
      const found = foundAfter(error, claim);
      const look = () => lookUp(parts, open, { found, since }, call);
      const more = found && round < mostRounds ? await look().catch(unlessUnknown(error)) : new Map();
      // Another unique field has the value, or nothing shows that the call was carried out.
      if (more.size <= known.size) throw refusalOf(error, plan, placedAt);
      known = more;
    }
  }
}

/** For a look-up that fails: where the write may have been carried out, its failure says so, and counts. */
function unlessUnknown(error: unknown): (failure: unknown) => Known {
  return (failure) => {
    if (error instanceof Problem && isUnknown(error)) return new Map();
    throw failure;
  };
}

/** What a look-up would show: that records are there already, or that a call was carried out whose answer was lost. */
function foundAfter(error: unknown, claim: Claim | undefined): Found['found'] {
  if (!(error instanceof WritesRefused)) return isUnknown(error) ? 'after loss' : undefined;
  if (!error.refusals.every(({ isDuplicate }) => isDuplicate)) return undefined;
  return claim?.continued ? 'after loss' : 'there';
}

interface Planned {
  item: TripItem;
  /** Undefined where there is nothing to write. */
  write: RecordWrite | undefined;
  status: HandoffConfirmation['status'];
}

function planOf(
  { resources }: TripParts,
  item: TripItem,
  record: (StoredRecord & Found) | undefined,
  since: number,
): Planned {
  const { request, externalId, needsApproval } = item;
  const resource = resources[request.type];
  if (record === undefined) {
    requireValid(request);
    const values = { ...valuesOf(resource, request), status: 'created' };
    const { validUntil } = request;
    return { item, write: { resource, externalId, values, validUntil }, status: 'created' };
  }
  if (request.onRepeat === undefined || isOwnMaking(record, since))
    return { item, write: undefined, status: 'created' };
  const values = updateOf(resource, request, { record, needsApproval });
  if (values === undefined) return { item, write: undefined, status: 'existing' };
  const isAsWanted = hasValues(resource, record.values, values);
  const write = isAsWanted ? undefined : { resource, externalId, values, record };
  return { item, write, status: 'updated' };
}

function answerOf(
  { request: { type }, externalId: external_id }: TripItem,
  { nativeId: id }: RecordRef,
  status: Planned['status'],
): ItemAnswer {
  return { id, type, status, external_id };
}

/** The records of the items, in one call; those that somebody has deleted where this request may have made them. */
async function lookUp(
  { records, resources }: TripParts,
  items: readonly TripItem[],
  { found, since }: Found & { since: number },
  call: Call,
): Promise<Known> {
  const keys = items.map(({ request, externalId }) => ({ resource: resources[request.type], externalId }));
  const rows = await records.findTogether(keys, call);
  return new Map(
    items.flatMap((item, index) => {
      const record = rows[index];
      if (record === undefined || isFromBefore(record, since)) return [];
      return record.isDeleted && found === 'there' ? [] : [[item, { ...record, found }] as const];
    }),
  );
}

/** Refusals with their places in the body; where nobody knows whether the call was carried out, what it would have made. */
function refusalOf(error: unknown, plan: readonly Planned[], placedAt: PlacedAt): unknown {
  const written = plan.filter(({ write }) => write !== undefined).map(({ item }) => item);
  const problemOf = (problem: Problem, at: number) => placedAt(problem, written[at] as TripItem) as Problem;
  if (error instanceof WritesRefused)
    return togetherOf(error.refusals.map(({ index, problem }) => problemOf(problem, index)));
  if (!(error instanceof Problem && isUnknown(error))) return error;
  return togetherOf(written.map((_, at) => problemOf(error, at)));
}

/** A problem of an item with its places in the body, and without what the caller does not see. */
export function refusalOfItem(
  { resources }: Pick<TripParts, 'resources'>,
  error: unknown,
  { item, index, call }: { item: TripItem; index: number; call: Call },
): unknown {
  const { request, externalId } = item;
  const resource = resources[request.type];
  return placed(withoutHidden(explain(error, resource, externalId), resource, call), index);
}

/** Does something for each item. Throws the problems of all for which it fails, as one. */
async function ofEach<T>(
  items: readonly TripItem[],
  work: (item: TripItem) => T | Promise<T>,
  placedAt: PlacedAt,
): Promise<T[]> {
  const settled = await Promise.allSettled(items.map(async (item) => work(item)));
  const failed = settled.flatMap((one, at) =>
    one.status === 'rejected' ? [placedAt(one.reason, items[at] as TripItem)] : [],
  );
  const problems = failed.filter((error) => error instanceof Problem);
  if (problems.length < failed.length) throw failed.find((error) => !(error instanceof Problem));
  if (problems.length > 0) throw togetherOf(problems);
  return settled.map((one) => (one as PromiseFulfilledResult<T>).value);
}
