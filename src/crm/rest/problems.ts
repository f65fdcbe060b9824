import { Problem } from '../../platform/base/problem.ts';
import type { ProblemCode, ProblemFacts } from '../../platform/base/problems.ts';
import type { Resource } from '../../records/resource.ts';
import { apiFieldOf, lookupFieldOf, scrub } from '../mapping/names.ts';
import type { CrmError, CrmFailure, FailureFacts, FailureKind } from './failure.ts';
import type { CrmRequest } from './request.ts';

interface CallerProblem {
  code: ProblemCode;
  detail: string;
  /** Seconds, where the CRM does not say. */
  retryAfter?: number;
}

/** Each kind of failure as callers of the service see it; nothing here comes from the CRM's own words. */
const problems: Record<Exclude<FailureKind, 'rejected' | 'duplicate' | 'reference'>, CallerProblem> = {
  session: {
    code: 'crm_unavailable',
    detail: 'The CRM does not accept the access of the service.',
    retryAfter: 5,
  },
  setup: {
    code: 'crm_error',
    detail: 'The CRM is not set up as the service needs it; its operator can tell more.',
  },
  locked: {
    code: 'crm_unavailable',
    detail: 'Another change to the record is under way in the CRM.',
    retryAfter: 1,
  },
  busy: { code: 'crm_unavailable', detail: 'The CRM is too busy.', retryAfter: 5 },
  quota: { code: 'crm_quota_exhausted', detail: 'The daily quota of CRM calls is used up.', retryAfter: 600 },
  gone: { code: 'not_found', detail: 'The record does not exist.' },
  conflict: { code: 'conflict', detail: 'The record is locked in the CRM, for example by an approval.' },
  unreachable: { code: 'crm_unavailable', detail: 'The CRM cannot be reached.', retryAfter: 5 },
  lost: { code: 'crm_unavailable', detail: 'The CRM did not finish its answer.', retryAfter: 5 },
  timeout: { code: 'crm_timeout', detail: 'The CRM did not answer in time.' },
  failed: { code: 'crm_error', detail: 'The CRM failed over the request.' },
  no_token: {
    code: 'crm_unavailable',
    detail: 'The CRM gives the service no access at the moment.',
    retryAfter: 5,
  },
  late: { code: 'crm_timeout', detail: 'No time was left for the call to the CRM.' },
  queue_full: { code: 'crm_unavailable', detail: 'Too many requests wait for the CRM.', retryAfter: 1 },
  budget_exhausted: {
    code: 'crm_quota_exhausted',
    detail: 'The budget of CRM calls has none left for now.',
    retryAfter: 1,
  },
  open: { code: 'crm_unavailable', detail: 'The CRM does not answer at the moment.', retryAfter: 1 },
  broken: { code: 'crm_error', detail: 'The CRM gave an answer that the service cannot use.' },
};

/** A failure as the `Problem` that callers get: the API's names, no native id, nothing of the CRM's credentials. */
export function crmProblem(failure: CrmFailure, request: Pick<CrmRequest, 'resource'>): Problem {
  const { kind, facts } = failure;
  if (facts.problem !== undefined) return facts.problem;
  const common: ProblemFacts = {
    cause: failure,
    ...(failure.outcomeUnknown ? { outcomeUnknown: true } : {}),
  };
  if (kind === 'rejected' || kind === 'duplicate') return rejected(facts, request.resource, common);
  if (kind === 'reference') return unknownReference(facts, request.resource, common);
  if (kind === 'budget_exhausted') common.isPaced = true;
  if (kind === 'locked' || kind === 'lost') common.isOfRecord = true;
  const { code, detail, retryAfter } = problems[kind];
  return new Problem(code, facts.advice ?? detail, { ...common, ...secondsToWait(facts, retryAfter) });
}

function secondsToWait(facts: FailureFacts, usual: number | undefined): Pick<ProblemFacts, 'retryAfter'> {
  if (usual === undefined) return {};
  return { retryAfter: Math.ceil(Math.max(1, facts.retryAfter ?? usual)) };
}

/** Characters of `detail` that list the errors. */
const longestDetail = 1000;

/** Every error that the CRM gave for the record. */
function rejected(
  { errors = [] }: FailureFacts,
  resource: Resource | undefined,
  facts: ProblemFacts,
): Problem {
  const faults = errors.map((error) => faultOf(error, resource));
  const texts = faults.map(({ pointer, message }) => (pointer ? `${pointer.slice(2)}: ${message}` : message));
  const detail = texts.join('; ').replaceAll('.; ', '; ').slice(0, longestDetail);
  return new Problem('crm_rejected', `The CRM refused the record: ${detail}`, { ...facts, errors: faults });
}

/** An error about several fields gets the pointer of the first one that the API has. */
function faultOf(error: CrmError, resource: Resource | undefined): { pointer: string; message: string } {
  const message = explain(error, resource);
  for (const column of error.fields) {
    const name = resource && apiFieldOf(resource, column);
    if (name !== undefined) return { pointer: `#/${name}`, message };
  }
  const isOther = error.fields.length > 0;
  return { pointer: '', message: isOther ? `a field that this API does not set: ${message}` : message };
}

/** Codes and field names of the CRM's errors for the log, which administrators of the org need; no values. */
export function refusalForLog({ facts }: CrmFailure): { code: string; fields: string[] }[] {
  return (facts.errors ?? []).map(({ code, fields }) => ({
    code: code.replace(/\W/g, '').slice(0, longestName),
    fields: fields.filter((name) => /^[\w.]+$/.test(name) && name.length <= longestName),
  }));
}

const longestName = 100;

/** Only an administrator's own validation text is worth showing, and only scrubbed; others quote values and ids. */
function explain(error: CrmError, resource: Resource | undefined): string {
  switch (error.code) {
    case 'REQUIRED_FIELD_MISSING':
      return 'is required.';
    case 'STRING_TOO_LONG': {
      const limit = /max length=(\d{1,7})/.exec(error.message)?.[1];
      return limit === undefined ? 'is too long.' : `is longer than ${limit} characters.`;
    }
    case 'INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST':
      return 'is not one of the values that the CRM allows.';
    case 'DUPLICATE_VALUE':
    case 'DUPLICATES_DETECTED':
      return 'another record has the same value.';
    case 'FIELD_CUSTOM_VALIDATION_EXCEPTION':
      return scrub(error.message, resource) || 'does not pass a validation rule.';
    default:
      return scrub(ruleTextIn(error.message), resource) || 'does not pass the rules of the CRM.';
  }
}

/**
 * The message of a validation rule within the error of a trigger or a flow: `…; first error:
 * FIELD_CUSTOM_VALIDATION_EXCEPTION, <text>: [] …` or `… FIELD_CUSTOM_VALIDATION_EXCEPTION: <text>. You can look up …`.
 * Empty if the error has none in this form.
 */
function ruleTextIn(message: string): string {
  const start = message.lastIndexOf(ruleCode);
  if (start < 0) return '';
  const text = message.slice(start + ruleCode.length, start + ruleCode.length + longestRuleText);
  return /^[,:]\s*(.*?)(?::\s*\[[\w, ]*\]|\. You can look up)/s.exec(text)?.[1] ?? '';
}

const ruleCode = 'FIELD_CUSTOM_VALIDATION_EXCEPTION';
const longestRuleText = 2000;

/** The only records that ours refer to are members. */
function unknownReference(
  refusal: FailureFacts,
  resource: Resource | undefined,
  facts: ProblemFacts,
): Problem {
  const lookup = resource && lookupFieldOf(resource);
  if (lookup === undefined) return rejected(refusal, resource, facts);
  const errors = [{ pointer: `#/${lookup}`, message: 'The CRM knows no such member.' }];
  return new Problem('member_not_found', 'The CRM knows no member with this id.', { ...facts, errors });
}
