import { now } from './chance.ts';
import { type Span, startPlainSpan } from './span.ts';

export const modes = ['live', 'test'] as const;
export type Mode = (typeof modes)[number];

/** How the ids of test consumers begin, and no others: whatever is stored with the id of its consumer has its mode, too. */
export const testIdStart = 'con_test00';

/** The service's own work is live. */
export function modeOf(consumerId: string | null | undefined): Mode {
  return consumerId?.startsWith(testIdStart) ? 'test' : 'live';
}

export function isTestCall({ consumerId }: Pick<Call, 'consumerId'>): boolean {
  return modeOf(consumerId) === 'test';
}

/**
 * The line between live and test: of two adapters of a port, the one that work for this consumer is done with. It goes by the
 * consumer's id alone, so it holds as well for what is done later, by another process, or after the consumer was revoked.
 */
export function adapterFor<T>({ consumerId }: Pick<Call, 'consumerId'>, adapters: Record<Mode, T>): T {
  return adapters[modeOf(consumerId)];
}

/**
 * Whether who sees these records sees one that this consumer made: live consumers see nothing of test consumers. In SQL:
 * `isRowVisible` in statements.ts.
 */
export function isRecordVisible(visible: Visible, consumerId: string | null | undefined): boolean {
  return visible === 'all' ? modeOf(consumerId) === 'live' : visible.consumerId === consumerId;
}

/**
 * For work of the service itself that began with a consumer's request: a test consumer's is done in its world, a live one's in
 * nobody's name.
 */
export function ownWorldOf(consumerId: string): string | undefined {
  return modeOf(consumerId) === 'test' ? consumerId : undefined;
}

/** Throws before anything of a test consumer reaches a system of others: the caller has the wrong adapter. */
export function requireLive(call: Pick<Call, 'consumerId'>): void {
  if (isTestCall(call)) throw new Error('the work of a test consumer must not leave the service');
}

export type Visible = 'all' | { readonly consumerId: string };

/** Names of fields as answers have them; undefined: all. */
export type VisibleFields = readonly string[] | undefined;

export function isFieldVisible(visible: VisibleFields, name: string): boolean {
  return visible === undefined || name === 'id' || visible.includes(name);
}

export interface Freshness {
  /** Seconds; undefined where the request does not say. */
  readonly maxAgeSeconds: number | undefined;
  /** Where the CRM fails, an answer of this many seconds is taken as well (RFC 5861 section 4). */
  readonly staleIfErrorSeconds?: number | undefined;
}

export interface Call {
  requestId: string;
  /** Where the work stands in its trace; calls to other systems are its children and carry its `traceHeaders`. */
  span: Span;
  /** Milliseconds of `now()` in chance.ts by which all work must be over; no call starts that could end later. */
  deadline: number;
  /** Consumer on whose behalf the work is done; undefined for the service's own work. */
  consumerId?: string | undefined;
  consumerName?: string | undefined;
  /** The person at the consumer who acts, as the request names them or has signed in: 1 to 255 printable characters. */
  actor?: string | undefined;
  /** Who that person is at the company's provider, where the person has signed in: the actor is proven then. */
  subject?: string | undefined;
  /**
   * Which records of a resource (`quotes`, say) the work may see. Whatever reads records honours it by itself, so that no
   * route can forget to.
   */
  visible: (resource: string) => Visible;
  visibleFields?: (resource: string) => VisibleFields;
  /** The work only reads, and may take an answer of some age; otherwise the CRM's of now. */
  freshness?: Freshness;
  /** The work changes something, though it may begin with reading: it may use what is reserved for writes. */
  isWrite?: boolean;
  /**
   * Work that waits in the database, and comes after all that requests wait for. `probe`: the one call that is to show
   * whether the CRM is back, made although others are refused, and once. `poll`: the reader of changes, which has a small
   * share of the CRM's calls to itself. `alone`: one over which the CRM has failed before. It has a call to itself, once;
   * that it fails again says nothing about the CRM.
   */
  background?: 'batch' | 'probe' | 'poll' | 'alone' | undefined;
  /** Sum of the milliseconds spent waiting for the CRM; the request log reports it. */
  crmMs: number;
}

/** Whether the work gets calls of its own, so that its failures affect no other. */
export function isAlone({ background }: Pick<Call, 'background'>): boolean {
  return background === 'alone' || background === 'probe';
}

/** Includes queue, token and retries. */
const requestBudgetMs = 25_000;

export const everything = (): Visible => 'all';

/**
 * A call that starts now, has `budgetMs` milliseconds and sees every record; without a span it is a trace of its own, not
 * recorded.
 */
export function startCall(
  requestId: string,
  consumerId?: string,
  budgetMs = requestBudgetMs,
  span: Span = startPlainSpan(),
): Call {
  return { requestId, span, consumerId, visible: everything, deadline: now() + budgetMs, crmMs: 0 };
}

export async function withChanges<T>(
  call: Call,
  changes: Partial<Omit<Call, 'crmMs'>>,
  work: (changed: Call) => Promise<T>,
): Promise<T> {
  const changed = { ...call, ...changes };
  try {
    return await work(changed);
  } finally {
    call.crmMs = changed.crmMs;
  }
}

/** Milliseconds left until the deadline, at this time of `now()`; 0 when it has passed. */
export function remainingMs(call: Call, time = now()): number {
  return Math.max(0, call.deadline - time);
}
