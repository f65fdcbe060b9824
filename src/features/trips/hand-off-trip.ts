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
  const waiting = await Promise.all(
    items.map((item, index) =>
      waitingAnswer(parts, item, request.call).catch((error: unknown) => {
        throw placed(error, index);
      }),
    ),
  );
  const open = items.filter((_, index) => waiting[index] === undefined);
  const since = request.claim?.since ?? wallMs();
  const written = await writeOpen(parts, { items, open, since }, request);
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

interface OpenItems {
  items: readonly TripItem[];
  /** Those for which no hand-off waits. */
  open: readonly TripItem[];
  /** Milliseconds since 1970: no earlier try was made before. */
  since: number;
}

async function writeOpen(
  parts: TripParts,
  { items, open, since }: OpenItems,
  { claim, call }: TripRequest,
): Promise<ItemAnswer[]> {
  let known: Known = claim?.continued
    ? await lookUp(parts, open, { found: 'after loss', since }, call)
    : new Map();
  for (let round = 1; ; round++) {
    const plan = open.map((item) =>
      planOf(parts, item, { record: known.get(item), since, index: items.indexOf(item) }),
    );
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
      const more =
        found && round < mostRounds ? await lookUp(parts, open, { found, since }, call) : new Map();
      // Another unique field has the value, or nothing shows that the call was carried out.
      if (more.size <= known.size) throw refusalOf(parts, error, { items, plan });
      known = more;
    }
  }
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
  { record, since, index }: { record: (StoredRecord & Found) | undefined; since: number; index: number },
): Planned {
  const { request, externalId, needsApproval } = item;
  const resource = resources[request.type];
  try {
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
  } catch (error) {
    throw placed(explain(error, resource, externalId), index);
  }
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

/** Refusals with their places in the body: the first one's code, and the errors of all. */
function refusalOf(
  { resources }: TripParts,
  error: unknown,
  { items, plan }: { items: readonly TripItem[]; plan: readonly Planned[] },
): unknown {
  if (!(error instanceof WritesRefused)) return error;
  const written = plan.filter(({ write }) => write !== undefined);
  const problems = error.refusals.map(({ index, problem }) => {
    const { request, externalId } = (written[index] as Planned).item;
    const item = items.findIndex((one) => one.externalId === externalId);
    return placed(explain(problem, resources[request.type], externalId), item) as Problem;
  });
  const [first] = problems as [Problem];
  const errors = problems.flatMap(({ facts }) => facts.errors ?? []);
  return new Problem(first.code, first.message, { ...first.facts, ...(errors.length > 0 && { errors }) });
}

/** A problem of an item, with pointers into the body of the trip. */
export function placed(error: unknown, index: number): unknown {
  if (!(error instanceof Problem)) return error;
  const { externalId: _, ...facts } = error.facts;
  const errors = facts.errors ?? [{ pointer: '', message: error.message }];
  const inBody = errors.map((fault) =>
    'pointer' in fault ? { ...fault, pointer: pointerIn(index, fault.pointer) } : fault,
  );
  return new Problem(error.code, error.message, { ...facts, errors: inBody });
}

/** The member is the whole trip's. */
function pointerIn(index: number, pointer: string): string {
  const isOfTrip = pointer === '#/member_id' || pointer === '#/trip_id';
  return isOfTrip ? pointer : `#/items/${index}${pointer.replace(/^#/, '')}`;
}
