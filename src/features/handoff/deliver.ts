import { LeasesTable } from '../../api/idempotency/leases-table.ts';
import { type RecordLease, recordLease } from '../../api/idempotency/ledger.ts';
import { createBatcher } from '../../platform/base/batching.ts';
import { type Call, withChanges } from '../../platform/base/call.ts';
import { now } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Database } from '../../platform/store/database.ts';
import { isHung, isUnavailable } from '../../platform/store/failures.ts';
import type { AttemptFacts, HandoffOutcome, Refusal, StoredHandoff, TakenHandoff } from './accepted.ts';
import {
  type Attempt,
  type HandoffConfirmation,
  type HandoffCrm,
  handOff,
  leaseInterrupted,
  type UpdateGuard,
} from './handoff.ts';
import type { HandoffsTable, LookedFor } from './handoffs-table.ts';
import { atStore } from './stored-items.ts';

export interface DeliveryParts extends HandoffCrm {
  /** See `HandoffsTable.noteRecords`. Throws `store_unavailable`. */
  noteRecord: (looked: LookedFor) => Promise<boolean>;
  leaseOf: (handoff: TakenHandoff) => RecordLease;
  /** See `HandoffsTable.rememberBefore`. Throws `store_unavailable`. */
  rememberBefore: (handoff: TakenHandoff, entityTag: string) => Promise<boolean>;
}

export type AttemptResult =
  | { status: 'created'; nativeId: string; confirmation?: HandoffConfirmation }
  | Extract<HandoffOutcome, { status: 'failed' }>
  | { status: 'open'; error: unknown };

export interface DeliveryAttempt {
  ended: AttemptResult;
  /** Both in milliseconds of `now()`. */
  startedAt: number;
  endedAt: number;
}

/**
 * Whether a failure may be caused by this hand-off: the CRM answered with an error, took too long, or could not
 * finish it, or another write had the record. Not if there was no time left for a call.
 */
export function mayBeOwn(error: unknown): boolean {
  if (!(error instanceof Problem) || error.code === 'crm_error' || isInUse(error)) return true;
  return isOfRecord(error) || (error.code === 'crm_timeout' && isUnknown(error));
}

export function isInUse({ code }: Problem): boolean {
  return code === 'idempotency_in_progress';
}

export function isOfRecord(error: unknown): boolean {
  return error instanceof Problem && error.facts.isOfRecord === true;
}

/** Whether an administrator has to repair the CRM first: others of the type may not need what is broken. */
export function isOfOrg(error: unknown): boolean {
  return error instanceof Problem && error.facts.isOfOrg === true;
}

export function isUnknown(error: unknown): boolean {
  return !(error instanceof Problem) || error.facts.outcomeUnknown === true;
}

/** Delivers a hand-off, once, within its lease. Never throws. */
export async function deliver(
  parts: DeliveryParts,
  handoff: TakenHandoff,
  call: Call,
): Promise<DeliveryAttempt> {
  const startedAt = now();
  const lease = parts.leaseOf(handoff);
  const ended = await attemptOnce(parts, handoff, { lease, call });
  const endedAt = now();
  await (ended.status === 'open' ? lease.endAfter(ended.error) : lease.end()).catch(() => undefined);
  return { ended, startedAt, endedAt };
}

async function attemptOnce(
  parts: DeliveryParts,
  handoff: TakenHandoff,
  { lease, call }: { lease: RecordLease; call: Call },
): Promise<AttemptResult> {
  const deadline = Math.min(call.deadline, handoff.deadline);
  const guard = guardOf(parts, handoff, lease);
  try {
    await leaseInterrupted(guard, handoff.type, handoff.externalId);
    const confirmation = await withChanges(call, { deadline }, async (own) =>
      handOff(parts, handoff, { ...(await lookFirst(parts, handoff, own)), guard }, own),
    );
    return { status: 'created', nativeId: confirmation.id, confirmation };
  } catch (error) {
    const refusal = finalRefusalOf(error);
    if (refusal === undefined) return { status: 'open', error };
    return { status: 'failed', refusal, mayExist: false };
  }
}

/** The deadline of the hand-off's own lease keeps an owner that was replaced from writing. */
function guardOf(parts: DeliveryParts, handoff: TakenHandoff, lease: RecordLease): UpdateGuard {
  let leased: Promise<void> | undefined;
  return {
    before: handoff.before,
    nameRecord(record) {
      leased ??= lease.take([record]);
      return leased;
    },
    rememberBefore: (entityTag) => parts.rememberBefore(handoff, entityTag),
    confirmOwnership: async () => undefined,
  };
}

/**
 * An item is looked for before its first call, and what was found is stored: so nobody takes the record of an earlier hand-off for one that
 * this one has made, and removes it. Throws `Problem`.
 */
async function lookFirst(
  { records, resources, noteRecord }: DeliveryParts,
  handoff: TakenHandoff,
  call: Call,
): Promise<Attempt> {
  const { reference, mayExist, type, externalId } = handoff;
  if (reference === undefined || mayExist) return handoff;
  const found = await records.findWithDeleted(resources[type], externalId, call);
  const known = found?.isDeleted ? undefined : found;
  const hadRecord = known !== undefined;
  if (await noteRecord({ handoff, hadRecord })) return { ...handoff, known, hadRecord };
  throw new Problem('store_unavailable', 'Another process has taken the hand-off, or it was cancelled.');
}

/** Undefined for all but a refusal for good, after which nothing was done. */
function finalRefusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof Problem) || error.status >= 500 || error.facts.outcomeUnknown) return undefined;
  if (isInUse(error)) return undefined;
  const { errors } = error.facts;
  return { code: error.code, detail: error.message, ...(errors && { errors }) };
}

export function outcomeOf(ended: AttemptResult, { mayExist }: TakenHandoff): HandoffOutcome {
  if (ended.status !== 'open') return ended;
  return { status: 'accepted', mayExist: mayExist || isUnknown(ended.error), failures: 0, pauseSeconds: 0 };
}

export function refusalOf(error: unknown): Refusal {
  if (error instanceof Problem) return { code: error.code, detail: error.message };
  return { code: 'internal_error', detail: 'The gateway failed while delivering it.' };
}

export function attemptFactsOf({ ended, startedAt, endedAt }: DeliveryAttempt): AttemptFacts {
  if (ended.status === 'created') return { startedAt, endedAt, failure: undefined };
  const failure = ended.status === 'failed' ? ended.refusal : refusalOf(ended.error);
  return { startedAt, endedAt, failure };
}

export function problemOf({ code, detail, errors }: NonNullable<StoredHandoff['refusal']>): Problem {
  return new Problem(code, detail, errors && { errors });
}

const notedAtOnce = 200;
/** No consumer's id: so no key that is sent ever meets a lease of a hand-off. */
const leaseOwner = 'stored hand-off';

export function createDeliveryParts(
  { records, resources }: HandoffCrm,
  { database, table }: { database: Database; table: HandoffsTable },
): DeliveryParts {
  const leases = new LeasesTable(database);
  const noteRecord = createBatcher({
    execute: (looked: LookedFor[]) => table.noteRecords(looked),
    inFlight: 2,
    batchSize: notedAtOnce,
    identity: ({ handoff }) => handoff.externalId,
    isShared: isUnavailable,
    isHung,
  });
  return {
    records,
    resources,
    noteRecord: (looked) => atStore(() => noteRecord(looked)),
    leaseOf: ({ externalId, fence }) =>
      recordLease(leases, { consumerId: leaseOwner, key: externalId }, fence),
    rememberBefore: (handoff, entityTag) => atStore(() => table.rememberBefore(handoff, entityTag)),
  };
}
