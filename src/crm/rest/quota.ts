import { monotonicMs } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import { pauseAfter } from '../../platform/base/waiting.ts';
import type { Metrics } from '../../platform/observability/metrics.ts';
import { CrmFailure } from '../failure.ts';
import { type CrmAnswer, type CrmRequest, header } from './request.ts';

/** While calls are refused, one is let through this often: only an answer shows that usage has fallen. */
const probeMs = 60_000;
/** After refusals by the CRM, in milliseconds. */
const pauses = { first: 1000, most: probeMs };

export interface ApiUsage {
  used: number;
  limit: number;
  usedByApp?: number;
  /** When the CRM said so, by `monotonicMs()`. */
  at: number;
}

export class CallQuota {
  readonly #reserve: number;
  readonly #metrics: Metrics;
  #usage: ApiUsage | undefined;
  /** By `monotonicMs()`. */
  #probeAt = 0;
  /** By `monotonicMs()`; undefined while the quota is not used up. */
  #heldUntil: number | undefined;
  #refusals = 0;

  constructor({ reserve, metrics }: { reserve: number; metrics: Metrics }) {
    this.#reserve = reserve;
    this.#metrics = metrics;
  }

  get usage(): ApiUsage | undefined {
    return this.#usage;
  }

  get isUsedUp(): boolean {
    return this.#heldUntil !== undefined;
  }

  note(answer: CrmAnswer): void {
    const found = parseLimitInfo(header(answer.headers, 'sforce-limit-info'));
    if (found === undefined) return;
    this.#usage = found;
    this.#probeAt = monotonicMs() + probeMs;
    this.#metrics.crmApiUsage.set(found.used);
    this.#metrics.crmApiLimit.set(found.limit);
  }

  noteAnswer(): void {
    this.#release();
  }

  noteFailure(error: unknown): void {
    if (error instanceof CrmFailure && error.kind === 'quota') {
      this.#refusals += 1;
      this.#heldUntil = monotonicMs() + pauseAfter(this.#refusals, pauses);
    } else if (isOtherRefusal(error)) this.#release();
  }

  /** Throws `Problem` (crm_quota_exhausted) where the quota is used up. */
  check(): void {
    if (this.#heldUntil !== undefined && monotonicMs() < this.#heldUntil)
      this.#refuse('The daily quota of CRM calls is used up.');
  }

  /**
   * Throws as `check`, and for a read where fewer calls than the reserve are left. Now and then a call is admitted all
   * the same, to see whether that still holds.
   */
  admit(effect: CrmRequest['effect']): void {
    this.check();
    const now = monotonicMs();
    if (this.#heldUntil !== undefined) this.#heldUntil = now + pauseAfter(this.#refusals + 1, pauses);
    if (this.#reserve === 0 || effect !== 'read' || this.#usage === undefined) return;
    if (this.#usage.limit - this.#usage.used >= this.#reserve) return;
    if (now < this.#probeAt) this.#refuse('The rest of the daily quota of CRM calls is kept for writes.');
    this.#probeAt = now + probeMs;
  }

  #refuse(detail: string): never {
    this.#metrics.crmTurnedAway.inc({ reason: 'quota' });
    throw new Problem('crm_quota_exhausted', detail, { retryAfter: probeMs / 1000 });
  }

  #release(): void {
    this.#heldUntil = undefined;
    this.#refusals = 0;
  }
}

function isOtherRefusal(error: unknown): boolean {
  if (!(error instanceof CrmFailure) || error.kind === 'session') return false;
  const { status = 0 } = error.facts;
  return status >= 400 && status < 500;
}

/** `api-usage=10018/100000`, with more after a semicolon, as `per-app-api-usage=17/250(appName=x)` (REST Developer Guide, Limit Info Header). */
function parseLimitInfo(value: string | undefined): ApiUsage | undefined {
  const parts = /(?:^|[;\s])api-usage=(\d{1,15})\/(\d{1,15})/.exec(value ?? '');
  if (parts === null) return undefined;
  const ofApp = /(?:^|[;\s])per-app-api-usage=(\d{1,15})\//.exec(value ?? '')?.[1];
  return {
    used: Number(parts[1]),
    limit: Number(parts[2]),
    at: monotonicMs(),
    ...(ofApp !== undefined && { usedByApp: Number(ofApp) }),
  };
}
