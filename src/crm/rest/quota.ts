import { Problem } from '../../base/problem.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { CrmFailure } from './failure.ts';
import { type CrmAnswer, type CrmRequest, header } from './request.ts';

/** While calls are held back, one passes this often: usage falls without us, and only an answer tells. */
const lookAgainMs = 60_000;
/** After the first refusal; doubled with each further one, up to `lookAgainMs`. */
const firstPauseMs = 1000;

export interface ApiUsage {
  used: number;
  limit: number;
}

export interface Quota {
  /** Takes note of the `Sforce-Limit-Info` of an answer. */
  note(answer: CrmAnswer): void;
  /** Runs one call and notes whether the CRM refused it for the quota. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Throws `Problem` (crm_quota_exhausted) where the quota is used up, and for a read where fewer calls than the
   * reserve are left. Now and then a call passes all the same, and looks.
   */
  admit(effect: CrmRequest['effect']): void;
  /** Throws as `admit`, and lets nothing pass in its stead. */
  check(): void;
  /** As the CRM last told; undefined before its first answer. */
  readonly usage: ApiUsage | undefined;
}

/** The org's daily quota of calls, and the reserve of it that is kept for writes. */
export function createQuota(options: { reserve: number; metrics: Metrics }): Quota {
  const { reserve, metrics } = options;
  let usage: ApiUsage | undefined;
  let lookAgainAt = 0;
  /** By `performance.now()`; undefined while the quota is not used up. */
  let heldUntil: number | undefined;
  let pauseMs = firstPauseMs;

  const refuse = (detail: string): never => {
    metrics.crmTurnedAway.inc({ reason: 'quota' });
    throw new Problem('crm_quota_exhausted', detail, { retryAfter: lookAgainMs / 1000 });
  };
  const check = () => {
    if (heldUntil !== undefined && performance.now() < heldUntil)
      refuse('The daily quota of CRM calls is used up.');
  };
  return {
    get usage() {
      return usage;
    },
    note(answer) {
      const found = parseLimitInfo(header(answer.headers, 'sforce-limit-info'));
      if (found === undefined) return;
      usage = found;
      lookAgainAt = performance.now() + lookAgainMs;
      metrics.crmApiUsage.set(found.used);
      metrics.crmApiLimit.set(found.limit);
    },
    async run(work) {
      try {
        const answer = await work();
        heldUntil = undefined;
        pauseMs = firstPauseMs;
        return answer;
      } catch (error) {
        if (error instanceof CrmFailure && error.kind === 'quota') {
          heldUntil = performance.now() + pauseMs;
          pauseMs = Math.min(lookAgainMs, pauseMs * 2);
        }
        throw error;
      }
    },
    check,
    admit(effect) {
      check();
      if (heldUntil !== undefined) heldUntil = performance.now() + pauseMs;
      if (reserve === 0 || effect !== 'read' || usage === undefined) return;
      if (usage.limit - usage.used >= reserve) return;
      if (performance.now() >= lookAgainAt) {
        lookAgainAt = performance.now() + lookAgainMs;
        return;
      }
      refuse('The rest of the daily quota of CRM calls is kept for writes.');
    },
  };
}

/** `api-usage=10018/100000`, with more parts after a semicolon (REST Developer Guide, Limit Info Header). */
function parseLimitInfo(value: string | undefined): ApiUsage | undefined {
  const parts = /(?:^|[;\s])api-usage=(\d{1,15})\/(\d{1,15})/.exec(value ?? '');
  return parts === null ? undefined : { used: Number(parts[1]), limit: Number(parts[2]) };
}
