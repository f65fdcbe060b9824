import type { Problem } from '../platform/base/problem.ts';

export type FailureKind =
  | 'session'
  | 'setup'
  /** Another transaction holds the record; nothing was done. */
  | 'locked'
  /** Too busy, or too many long calls; nothing was done. */
  | 'busy'
  /** The daily quota of calls is used up; nothing was done. */
  | 'quota'
  | 'gone'
  | 'duplicate'
  | 'reference'
  | 'conflict'
  | 'rejected'
  /** The host can't be reached; nothing was sent. */
  | 'unreachable'
  /** The connection was lost, or the edge answered for an instance that did not. */
  | 'lost'
  | 'timeout'
  /** The CRM failed over the request: an exception of its own, or of the org's code. */
  | 'failed'
  /** There is no access token; nothing was sent. */
  | 'no_token'
  /** No time was left before the deadline; nothing was sent. */
  | 'late'
  /** Too many requests wait already; nothing was sent. */
  | 'queue_full'
  /** The budget of calls is exhausted for now; nothing was sent. */
  | 'budget_exhausted'
  /** The end of the item's validity has passed; nothing was sent. */
  | 'ended'
  /** The circuit breaker is open: the CRM failed call after call; nothing was sent. */
  | 'open'
  | 'broken';

/** Kinds after which it is unknown whether a write took effect. */
export const uncertainKinds: readonly FailureKind[] = ['lost', 'timeout', 'failed'];

export interface CrmError {
  code: string;
  /** The CRM's own words: may hold native ids and values. */
  message: string;
  fields: string[];
  rule?: string;
}

export interface FailureFacts {
  status?: number;
  error?: CrmError | undefined;
  errors?: readonly CrmError[];
  ofOrg?: readonly CrmError[];
  mayBeOthers?: boolean;
  /** Seconds, as the CRM asks. */
  retryAfter?: number | undefined;
  outcomeUnknown?: boolean;
  problem?: Problem;
  isOfVersion?: boolean;
  advice?: string;
}

export class CrmFailure extends Error {
  override readonly name = 'CrmFailure';
  readonly kind: FailureKind;
  readonly facts: FailureFacts;

  constructor(kind: FailureKind, message: string, facts: FailureFacts = {}) {
    super(message);
    this.kind = kind;
    this.facts = facts;
  }

  get outcomeUnknown(): boolean {
    return this.facts.outcomeUnknown === true;
  }
}

export function queueFull(): CrmFailure {
  return new CrmFailure('queue_full', 'too many requests wait for the CRM', { retryAfter: 1 });
}

export function budgetExhausted(retryAfter: number): CrmFailure {
  return new CrmFailure('budget_exhausted', 'the budget of calls has none left for now', { retryAfter });
}

/**
 * Whether a call failed before it was sent, so that the failure shows nothing about the CRM: no time or no slot was left,
 * the budget was exhausted, or the breaker was open.
 */
export function isUnsent({ kind }: CrmFailure): boolean {
  return kind === 'late' || kind === 'queue_full' || kind === 'budget_exhausted' || kind === 'open';
}

/** Whether nothing of a request was sent that may have taken effect. */
export function isCertainlyUnsent(error: unknown): error is CrmFailure {
  return error instanceof CrmFailure && isUnsent(error) && !error.outcomeUnknown;
}

/** Only calls that the CRM received are metered. */
export function wasSent(failure: CrmFailure): boolean {
  return !isUnsent(failure) && failure.kind !== 'unreachable' && failure.kind !== 'no_token';
}

export function isTooMuch({ kind, facts }: CrmFailure): boolean {
  return kind === 'broken' && facts.status === undefined;
}

export function isConnected({ kind, facts }: CrmFailure): boolean {
  const { status = 0, error } = facts;
  if (facts.isOfVersion) return false;
  if (kind === 'busy' || kind === 'broken') return status > 0 && status < 500;
  if (kind === 'setup') return status !== 401 && error?.code !== 'API_DISABLED_FOR_ORG';
  return !['session', 'unreachable', 'lost', 'timeout', 'failed', 'no_token'].includes(kind);
}

export type DisconnectedBy = 'sign_in' | 'data' | 'version' | 'network';

export function disconnectedBy(failure: CrmFailure): DisconnectedBy | undefined {
  if (isConnected(failure)) return undefined;
  const { kind, facts } = failure;
  if (facts.isOfVersion) return 'version';
  if (kind === 'no_token') return 'sign_in';
  // The edge answers in the place of an org that it can't reach.
  const isOfEdge = facts.error === undefined && (facts.status ?? 500) >= 500;
  return isOfEdge ? 'network' : 'data';
}
