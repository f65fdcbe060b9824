import { Problem, type ProblemCode } from '../../../../platform/base/problem.ts';

/**
 * Why a call has no usable answer; also a label of metrics.
 * `timeout`: none in time. `unreachable`: not reached, connection lost, or unavailable for now. `busy`: refused for now.
 * `credentials`: our credentials are refused. `invalid`: the request itself is refused. `missing`: nothing found.
 * `absent`: the partner does not have this method. `broken`: an answer that makes no sense, or an internal error.
 */
export type PartnerFailureKind =
  | 'timeout'
  | 'unreachable'
  | 'busy'
  | 'credentials'
  | 'invalid'
  | 'missing'
  | 'absent'
  | 'broken';

interface Facts {
  outcomeUnknown?: boolean;
  /** HTTP status, where there was one. */
  status?: number;
  /** Seconds. */
  retryAfter?: number | undefined;
}

/** A failed call to the partner. The message holds nothing of what was sent or answered. */
export class PartnerFailure extends Error {
  override readonly name = 'PartnerFailure';
  readonly kind: PartnerFailureKind;
  readonly facts: Facts;

  constructor(kind: PartnerFailureKind, message: string, facts: Facts = {}) {
    super(message);
    this.kind = kind;
    this.facts = facts;
  }
}

/** Google's table of status codes says which status is what, and whether something may have changed. */
interface Reading {
  kind: PartnerFailureKind;
  outcomeUnknown: boolean;
}

const nothingDone = (kind: PartnerFailureKind): Reading => ({ kind, outcomeUnknown: false });
const perhapsDone = (kind: PartnerFailureKind): Reading => ({ kind, outcomeUnknown: true });

const readings: Record<number, Reading> = {
  400: nothingDone('invalid'),
  401: nothingDone('credentials'),
  403: nothingDone('credentials'),
  404: nothingDone('missing'),
  408: perhapsDone('timeout'),
  409: nothingDone('busy'),
  429: nothingDone('busy'),
  499: perhapsDone('timeout'),
  501: nothingDone('absent'),
  // A proxy may answer with these while the server still executes the call.
  502: perhapsDone('unreachable'),
  503: perhapsDone('unreachable'),
  504: perhapsDone('timeout'),
};

export function failureOfStatus(status: number, retryAfter: number | undefined): PartnerFailure {
  const others = status >= 500 ? perhapsDone('broken') : nothingDone('broken');
  const { kind, outcomeUnknown } = readings[status] ?? others;
  return new PartnerFailure(kind, `the partner answers with status ${status}`, {
    status,
    outcomeUnknown,
    retryAfter,
  });
}

const wordings: Record<
  PartnerFailureKind,
  {
    code: ProblemCode;
    detail: string;
    /** Seconds, where the partner names none. */
    retryAfter?: number;
  }
> = {
  timeout: { code: 'partner_timeout', detail: "The dining partner didn't answer in time." },
  unreachable: {
    code: 'partner_unavailable',
    detail: "The dining partner can't be reached right now.",
    retryAfter: 5,
  },
  busy: {
    code: 'partner_unavailable',
    detail: "The dining partner isn't accepting calls right now.",
    retryAfter: 5,
  },
  credentials: { code: 'partner_error', detail: "The dining partner refuses the gateway's credentials." },
  invalid: { code: 'partner_error', detail: "The dining partner doesn't accept the request." },
  missing: { code: 'partner_error', detail: "The dining partner wasn't found at its address." },
  absent: { code: 'partner_error', detail: "The dining partner doesn't support this." },
  broken: { code: 'partner_error', detail: "The dining partner gave a response that the gateway can't use." },
};

/**
 * Problem that the caller gets for a failure of the partner; any other error as it is. `outcomeUnknown`: an earlier attempt may
 * have changed something, whatever this one did.
 */
export function asProblem(failure: unknown, outcomeUnknown = false): unknown {
  if (!(failure instanceof PartnerFailure)) return failure;
  const { code, detail, retryAfter } = wordings[failure.kind];
  const seconds = failure.facts.retryAfter ?? retryAfter;
  return new Problem(code, detail, {
    outcomeUnknown: outcomeUnknown || failure.facts.outcomeUnknown === true,
    ...(code === 'partner_unavailable' && seconds !== undefined ? { retryAfter: seconds } : {}),
    cause: failure,
  });
}

export function throwOutcomeUnknown(error: unknown): never {
  throw asProblem(error, true);
}
