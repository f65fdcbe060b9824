import { hash } from 'node:crypto';
import { type Claim, recordInUse } from '../../api/idempotency/ledger.ts';
import type { Call } from '../../platform/base/call.ts';
import { wallMs } from '../../platform/base/chance.ts';
import { coalesce } from '../../platform/base/concurrency.ts';
import { Problem } from '../../platform/base/problem.ts';
import { uuidOfHash } from '../../platform/base/text.ts';
import {
  type Found,
  isFromBefore,
  type RecordRef,
  type RecordWrite,
  type StoredRecord,
  WritesRefused,
} from '../../records/records.ts';
import { createRepresentation, entityTag } from '../../records/representation.ts';
import { isUnknown } from '../handoff/deliver.ts';
import {
  type Attempt,
  changedMeanwhile,
  explain,
  type HandoffConfirmation,
  type HandoffCrm,
  type HandoffRequest,
  type HandoffType,
  meetingOf,
  type RequestGuard,
  requireValid,
  valuesOf,
} from '../handoff/handoff.ts';
import type { Handoffs } from '../handoff/handoffs.ts';
import { withoutHidden } from '../handoff/routes/handoff.ts';
import { placed, togetherOf } from './refusals.ts';

export interface TripItem {
  request: HandoffRequest;
  externalId: string;
  needsApproval: boolean;
}

export type ItemAnswer =
  | HandoffConfirmation
  | { type: HandoffType; status: 'accepted' | 'awaiting_approval'; external_id: string };

export interface TripParts extends HandoffCrm {
  handoffs: Handoffs;
}

export interface TripRequest {
  claim: Claim | undefined;
  call: Call;
}

/** All or none can't be promised of what is written later. */
export function notAtomic(): Problem {
  const message =
    'must be false or left out here; items that are delivered later or wait for approval are delivered one by one';
  return new Problem('invalid_request', `The body's atomic ${message}.`, {
    errors: [{ pointer: '#/atomic', message }],
  });
}

/** The External ID of an item without a reference: the same for each repeat of a request. */
export function idInTrip(root: string, position: number): string {
  return uuidOfHash(hash('sha256', `${root} ${position}`, 'buffer'));
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
  const { claim, call } = request;
  const placeOf = (item: TripItem) => items.findIndex(({ externalId }) => externalId === item.externalId);
  const placedAt: PlacedAt = (error, item) =>
    refusalOfItem(parts, error, { item, index: placeOf(item), call });
  const since = claim?.since ?? wallMs();
  const mayExist = claim?.continued === true;
  const continuedSince = mayExist ? since : undefined;
  const meeting = await parts.handoffs.meet(
    items,
    { continuedSince, refusalOf: (refusals) => togetherBy(items, refusals, placedAt) },
    call,
  );
  const open = items.flatMap((item, index): OpenItem[] => {
    if (meeting.waiting[index] !== undefined) return [];
    const left = meeting.left[index];
    const earlier = left ? { mayExist: true, isReplaced: true, ...left } : { mayExist, since };
    return [{ ...item, earlier }];
  });
  try {
    const written = await writeOpen(parts, { open, placedAt }, request);
    await meeting.done(written.filter((one) => 'id' in one));
    return items.map(({ request: { type }, externalId: external_id }, index) => {
      const status = meeting.waiting[index];
      if (status !== undefined) return { type, status, external_id };
      return written[open.findIndex((item) => item.externalId === external_id)] as ItemAnswer;
    });
  } catch (error) {
    await meeting.undone();
    throw error;
  }
}

type Known = ReadonlyMap<OpenItem, StoredRecord & Found>;

type PlacedAt = (error: unknown, item: TripItem) => unknown;

interface OpenItem extends TripItem {
  earlier: Omit<Attempt, 'externalId'>;
}

async function writeOpen(
  parts: TripParts,
  { open, placedAt }: { open: readonly OpenItem[]; placedAt: PlacedAt },
  { claim, call }: TripRequest,
): Promise<ItemAnswer[]> {
  const guard = claim && guardOf(parts, open, claim);
  let isLooked = open.some(isLookedUpFirst);
  let known: Known = new Map();
  const look = async (found: Found['found']) => {
    await guard?.lease();
    return lookUp(parts, open, { found, known }, call);
  };
  if (isLooked) known = await look('there');
  requireNoApproval(open, known);
  // Others may make records of these items between a look and the call: each round knows more of them than the one before.
  for (;;) {
    const plan = await ofEach(open, (item) => planOf(parts, item, known.get(item)), placedAt);
    const writes = plan.flatMap(({ write }) => write ?? []);
    await guard?.remember(plan);
    try {
      const refs = writes.length === 0 ? [] : await parts.records.writeTogether(writes, call);
      return plan.map((planned) => answerOf(planned, refOf(planned, { writes, refs, known })));
    } catch (error) {
      const found = shownBy(error, open, isLooked);
      if (!found) throw refusalOf(error, plan, placedAt);
      const more = await look(found).catch(unlessUnknown(error));
      isLooked = true;
      // Another unique field has the value, or nothing shows that the call was carried out.
      if (more.size <= known.size) throw refusalOf(error, plan, placedAt);
      known = more;
    }
  }
}

/** Nothing is made of what needs approval by now; what was made before is the answer. */
function requireNoApproval(open: readonly OpenItem[], known: Known): void {
  if (open.some((item) => item.needsApproval && !known.has(item))) throw notAtomic();
}

function isLookedUpFirst({ earlier: { mayExist }, request }: OpenItem): boolean {
  const hasEnded = request.validUntil !== undefined && wallMs() >= request.validUntil;
  return mayExist === true || (request.onRepeat === 'return' && hasEnded);
}

/**
 * A look-up may show that a call was carried out whose answer was lost, or records that are there already. Where an item has
 * a record, all else that is wrong with making it says nothing.
 */
function shownBy(error: unknown, open: readonly OpenItem[], isLooked: boolean): Found['found'] {
  if (!(error instanceof WritesRefused)) return isUnknown(error) ? 'after loss' : undefined;
  const isDuplicate = error.refusals.every((refusal) => refusal.isDuplicate);
  const mayHaveRecords = !isLooked && open.some(({ request }) => request.onRepeat !== undefined);
  return isDuplicate || mayHaveRecords ? 'there' : undefined;
}

/** For a look-up that fails: where the write may have been carried out, its failure says so, and counts. */
function unlessUnknown(error: unknown): (failure: unknown) => Known {
  return (failure) => {
    if (error instanceof Problem && isUnknown(error)) return new Map();
    throw failure;
  };
}

interface Planned {
  item: OpenItem;
  /** Undefined where there is nothing to write. */
  write: RecordWrite | undefined;
  status: HandoffConfirmation['status'];
}

function planOf(
  { resources }: TripParts,
  item: OpenItem,
  record: (StoredRecord & Found) | undefined,
): Planned {
  const { request, externalId, needsApproval, earlier } = item;
  const resource = resources[request.type];
  if (record === undefined) {
    requireValid(request);
    const values = { ...valuesOf(resource, request), status: 'created' };
    const { validUntil } = request;
    return { item, write: { resource, externalId, values, validUntil }, status: 'created' };
  }
  if (request.onRepeat === undefined) return { item, write: undefined, status: 'created' };
  const { status, values } = meetingOf(resource, request, { ...earlier, needsApproval }, record);
  const isUpdate = values !== undefined && status === 'updated';
  if (isUpdate) requireValid(request);
  const validUntil = isUpdate ? request.validUntil : undefined;
  return { item, write: values && { resource, externalId, values, record, validUntil }, status };
}

/**
 * Guards changes of records of items, under the request's key: nobody writes between the look and the call, and what others have changed
 * since an interrupted call is not overwritten.
 */
function guardOf({ resources }: TripParts, open: readonly OpenItem[], claim: Claim) {
  const names = updatedNames(open);
  const before = readStates(claim.before);
  let isLeased = false;
  return {
    /** Before records are looked up. Throws `idempotency_in_progress`. */
    async lease(): Promise<void> {
      if (isLeased || names.length === 0) return;
      await claim.leaseRecords(names);
      isLeased = true;
    },
    /** Before records are written. Throws `conflict`, and `idempotency_in_progress` once replaced. */
    async remember(plan: readonly Planned[]): Promise<void> {
      const states = plan.flatMap(({ item: { externalId }, write }): [string, string][] => {
        if (write?.record === undefined) return [];
        const represent = createRepresentation(resources[write.resource.name as HandoffType]);
        return [[externalId, entityTag(represent(write.record.values))]];
      });
      if (states.length === 0) return claim.confirmOwnership();
      if (states.some(([id, state]) => before.has(id) && before.get(id) !== state)) throw changedMeanwhile();
      if (!(await claim.rememberBefore(statesText(states)))) throw recordInUse();
      await claim.confirmOwnership();
    },
  };
}

/**
 * Guards changes of records of items that are handed off one by one, in the same way. `isCallLost`: a call of this owner for all of them may
 * have been carried out.
 */
export function guardEach(
  items: readonly TripItem[],
  claim: Claim,
  isCallLost: boolean,
): (item: TripItem) => RequestGuard {
  const before = readStates(isCallLost ? claim.remembered() : claim.before);
  const states = new Map(before);
  const remember = coalesce(async () => {
    if (!(await claim.rememberBefore(statesText(states)))) throw recordInUse();
  });
  let leased: Promise<void> | undefined;
  return ({ externalId }) => ({
    before: before.get(externalId),
    remembered: () => states.get(externalId),
    // All at once: two trips that each had a part would keep each other waiting. Not before one is written: what waits is delivered.
    nameRecord() {
      leased ??= claim.leaseRecords(updatedNames(items));
      return leased;
    },
    async rememberBefore(state) {
      states.set(externalId, state);
      await remember();
      return true;
    },
    confirmOwnership: () => claim.confirmOwnership(),
  });
}

function updatedNames(items: readonly TripItem[]): string[] {
  return items.flatMap(({ request: { type, onRepeat }, externalId }) =>
    onRepeat === 'update' ? [`${type} ${externalId}`] : [],
  );
}

/** Tags of records from before the first call, by External ID. */
function readStates(text = ''): Map<string, string> {
  const pairs = text === '' ? [] : text.split(' ');
  return new Map(pairs.map((pair) => pair.split('=') as [string, string]));
}

function statesText(states: Iterable<[string, string]>): string {
  return Array.from(states, (pair) => pair.join('=')).join(' ');
}

function refOf(
  { item, write }: Planned,
  { writes, refs, known }: { writes: readonly RecordWrite[]; refs: readonly RecordRef[]; known: Known },
): RecordRef {
  return (write ? refs[writes.indexOf(write)] : known.get(item)) as RecordRef;
}

function answerOf({ item, status }: Planned, { nativeId: id }: RecordRef): ItemAnswer {
  return { id, type: item.request.type, status, external_id: item.externalId };
}

/**
 * The records of the items, in one call; those that somebody has deleted where this request may have made them. `found` is `after loss`
 * after a call of this request whose answer was lost: it made all items that weren't known, or none.
 */
async function lookUp(
  { records, resources }: TripParts,
  items: readonly OpenItem[],
  { found, known }: Found & { known: Known },
  call: Call,
): Promise<Known> {
  const keys = items.map(({ request, externalId }) => ({ resource: resources[request.type], externalId }));
  const rows = await records.findTogether(keys, call);
  const mayBeOwn = ({ earlier: { isReplaced, since } }: OpenItem, record: StoredRecord | undefined) =>
    record !== undefined && !(record.isDeleted && (isReplaced || isFromBefore(record, since)));
  const isMade =
    found === 'after loss' && items.every((item, index) => known.has(item) || mayBeOwn(item, rows[index]));
  return new Map(
    items.flatMap((item, index) => {
      const record = rows[index];
      const before = known.get(item);
      const isOwn = item.earlier.mayExist || (before ? before.found === 'after loss' : isMade);
      if (record === undefined || (record.isDeleted && !(isOwn && mayBeOwn(item, record)))) return [];
      const asFound: Found = { found: isOwn ? 'after loss' : 'there' };
      return [[item, { ...record, ...asFound }] as const];
    }),
  );
}

function refusalOf(error: unknown, plan: readonly Planned[], placedAt: PlacedAt): unknown {
  const written = plan.filter(({ write }) => write !== undefined).map(({ item }) => item);
  const problemOf = (problem: Problem, at: number) => placedAt(problem, written[at] as TripItem) as Problem;
  if (error instanceof WritesRefused)
    return togetherOf(error.refusals.map(({ index, problem }) => problemOf(problem, index)));
  if (!(error instanceof Problem && isUnknown(error))) return error;
  return togetherOf(written.map((_, at) => problemOf(error, at)));
}

export function refusalOfItem(
  { resources }: Pick<TripParts, 'resources'>,
  error: unknown,
  { item, index, call }: { item: TripItem; index: number; call: Call },
): unknown {
  const { request, externalId } = item;
  const resource = resources[request.type];
  return placed(withoutHidden(explain(error, resource, externalId), resource, call), index);
}

function togetherBy(
  items: readonly TripItem[],
  refusals: ReadonlyMap<number, unknown>,
  placedAt: PlacedAt,
): unknown {
  const failed = [...refusals].map(([at, reason]) => placedAt(reason, items[at] as TripItem));
  const problems = failed.filter((error) => error instanceof Problem);
  return problems.length < failed.length
    ? failed.find((error) => !(error instanceof Problem))
    : togetherOf(problems);
}

/** Does something for each item. Throws the problems of all for which it fails, as one. */
async function ofEach<I extends TripItem, T>(
  items: readonly I[],
  work: (item: I) => T | Promise<T>,
  placedAt: PlacedAt,
): Promise<T[]> {
  const settled = await Promise.allSettled(items.map(async (item) => work(item)));
  const failed = settled.flatMap((one, at): [number, unknown][] =>
    one.status === 'rejected' ? [[at, one.reason]] : [],
  );
  if (failed.length > 0) throw togetherBy(items, new Map(failed), placedAt);
  return settled.map((one) => (one as PromiseFulfilledResult<T>).value);
}
