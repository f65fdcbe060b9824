import { Problem } from '../../base/problem.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { type CrmAnswer, type CrmRequest, header } from './request.ts';

/** While reads are held back, one passes this often: usage falls without us, and only an answer tells. */
const lookAgainMs = 60_000;

export interface ApiUsage {
  used: number;
  limit: number;
}

export interface Quota {
  /** Takes note of the `Sforce-Limit-Info` of an answer. */
  note(answer: CrmAnswer): void;
  /** Throws `Problem` (crm_quota_exhausted) for a read when fewer calls than the reserve are left. */
  admit(request: CrmRequest): void;
  /** As the CRM last told; undefined before its first answer. */
  readonly usage: ApiUsage | undefined;
}

/** The org's daily quota of calls, and the reserve of it that is kept for writes. */
export function createQuota(options: { reserve: number; metrics: Metrics }): Quota {
  let usage: ApiUsage | undefined;
  let lookAgainAt = 0;
  return {
    get usage() {
      return usage;
    },
    note(answer) {
      const found = parseLimitInfo(header(answer.headers, 'sforce-limit-info'));
      if (found === undefined) return;
      usage = found;
      lookAgainAt = performance.now() + lookAgainMs;
      options.metrics.crmApiUsage.set(found.used);
      options.metrics.crmApiLimit.set(found.limit);
    },
    admit(request) {
      if (options.reserve === 0 || request.effect !== 'read' || usage === undefined) return;
      if (usage.limit - usage.used >= options.reserve) return;
      if (performance.now() >= lookAgainAt) {
        lookAgainAt = performance.now() + lookAgainMs;
        return;
      }
      const detail = 'The rest of the daily quota of CRM calls is kept for writes.';
      throw new Problem('crm_quota_exhausted', detail, { retryAfter: lookAgainMs / 1000 });
    },
  };
}

/** `api-usage=10018/100000`, with more parts after a semicolon (REST Developer Guide, Limit Info Header). */
function parseLimitInfo(value: string | undefined): ApiUsage | undefined {
  const parts = /(?:^|[;\s])api-usage=(\d{1,15})\/(\d{1,15})/.exec(value ?? '');
  return parts === null ? undefined : { used: Number(parts[1]), limit: Number(parts[2]) };
}
