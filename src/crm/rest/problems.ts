import { Problem, type ProblemCode, type ProblemFacts } from '../../platform/base/problem.ts';
import { startOf } from '../../platform/base/text.ts';
import { unknownMember } from '../../records/members.ts';
import type { Resource } from '../../records/resource.ts';
import type { CrmError, CrmFailure, FailureFacts, FailureKind } from '../failure.ts';
import { apiFieldOf, lookupFieldOf, namesIn } from '../mapping/names.ts';
import { isThrown, rowOf, thrownBy } from './error-codes.ts';
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
    detail: "The CRM doesn't accept the gateway's access token.",
    retryAfter: 5,
  },
  setup: {
    code: 'crm_error',
    detail: "The CRM isn't set up the way the gateway needs it. Ask the operator.",
  },
  locked: {
    code: 'crm_unavailable',
    detail: 'Another change to the record is under way in the CRM.',
    retryAfter: 1,
  },
  busy: { code: 'crm_unavailable', detail: "The CRM isn't available right now.", retryAfter: 5 },
  quota: { code: 'crm_quota_exhausted', detail: 'The daily quota of CRM calls is used up.', retryAfter: 600 },
  gone: { code: 'not_found', detail: "The record doesn't exist." },
  conflict: { code: 'conflict', detail: 'The record is locked in the CRM, for example by an approval.' },
  unreachable: { code: 'crm_unavailable', detail: "The CRM can't be reached.", retryAfter: 5 },
  lost: { code: 'crm_unavailable', detail: "The CRM didn't finish its response.", retryAfter: 5 },
  timeout: { code: 'crm_timeout', detail: "The CRM didn't answer in time." },
  failed: { code: 'crm_error', detail: 'The CRM failed while processing the request.' },
  no_token: {
    code: 'crm_unavailable',
    detail: 'The CRM is refusing the gateway access right now.',
    retryAfter: 5,
  },
  late: { code: 'crm_timeout', detail: 'No time was left for the call to the CRM.' },
  queue_full: {
    code: 'crm_unavailable',
    detail: 'Too many requests are waiting for the CRM.',
    retryAfter: 1,
  },
  budget_exhausted: {
    code: 'crm_quota_exhausted',
    detail: 'The CRM call budget has no calls left for now.',
    retryAfter: 1,
  },
  ended: { code: 'offer_expired', detail: 'The offer has ended.' },
  open: { code: 'crm_unavailable', detail: "The CRM isn't responding right now.", retryAfter: 1 },
  broken: { code: 'crm_error', detail: "The CRM gave a response that the gateway can't use." },
};

export function problemCodeOf(kind: FailureKind): ProblemCode {
  if (kind === 'rejected' || kind === 'duplicate') return 'crm_rejected';
  return kind === 'reference' ? 'member_not_found' : problems[kind].code;
}

export function crmProblem(failure: CrmFailure, request: Pick<CrmRequest, 'resource'>): Problem {
  const { kind, facts } = failure;
  if (facts.problem !== undefined) return facts.problem;
  const common: ProblemFacts = {
    cause: failure,
    ...(failure.outcomeUnknown ? { outcomeUnknown: true } : {}),
  };
  if (kind === 'rejected' || kind === 'duplicate') return rejected(facts, request.resource, common);
  if (kind === 'reference') return unknownReference(facts, request.resource, common);
  common.isBudgetExhausted = kind === 'budget_exhausted';
  common.isOfRecord = kind === 'locked' || kind === 'lost';
  const { code, detail, retryAfter } = problems[kind];
  const known = facts.advice ?? faultOfOrg(failure, request.resource);
  return new Problem(code, known || detail, { ...common, ...secondsToWait(facts, retryAfter) });
}

/** The field, by the API's name, that the org lacks or refuses to the service; undefined where no field is named. */
function faultOfOrg(
  { kind, facts: { error } }: CrmFailure,
  resource: Resource | undefined,
): string | undefined {
  if (kind !== 'setup' || error === undefined || resource === undefined) return undefined;
  const named = namesIn(error);
  const fields = named.flatMap((name) => apiFieldOf(resource, name) ?? []).join(', ');
  switch (error.code) {
    case 'INVALID_CROSS_REFERENCE_KEY': {
      const column = error.fields.find((name) => /^\w{1,80}$/.test(name)) ?? 'a field';
      return `The CRM doesn't accept the value that the gateway sets as ${column}. Ask its operator to allow it for the integration user, or to set another in the mapping.`;
    }
    case 'DUPLICATE_VALUE':
      return `The CRM has this record, or another one that shares a value with it, and doesn't show it to the gateway. Ask its operator to give the integration user View All Records on ${resource.crmObject}.`;
    case 'INVALID_FIELD':
      return fields && `The CRM has no field for ${fields} that the gateway can see. ${remedy}`;
    case 'INSUFFICIENT_ACCESS_OR_READONLY':
    case 'CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY':
      return `The CRM doesn't let the gateway do this with ${resource.crmObject}. Ask its operator to give the integration user the right to it.`;
    case 'INVALID_FIELD_FOR_INSERT_UPDATE':
      return fields && `The CRM doesn't let the gateway write ${fields}. ${remedy}`;
    default:
      return undefined;
  }
}

const remedy =
  'Ask its operator to give the integration user the right to the field, or to map it to another.';

function secondsToWait(facts: FailureFacts, usual: number | undefined): Pick<ProblemFacts, 'retryAfter'> {
  if (usual === undefined) return {};
  return { retryAfter: Math.ceil(Math.max(1, facts.retryAfter ?? usual)) };
}

/** Characters of `detail` that list the errors. */
const longestDetail = 1000;

function rejected(
  { errors = [] }: FailureFacts,
  resource: Resource | undefined,
  facts: ProblemFacts,
): Problem {
  const faults = errors.map((error) => faultOf(error, resource));
  const texts = faults.map(({ pointer, message }) => (pointer ? `${pointer.slice(2)}: ${message}` : message));
  const detail = startOf(texts.join('; ').replaceAll('.; ', '; '), longestDetail);
  return new Problem('crm_rejected', `The CRM refused the record: ${detail}`, { ...facts, errors: faults });
}

function faultOf(error: CrmError, resource: Resource | undefined): { pointer: string; message: string } {
  const message = explain(error, resource);
  for (const column of error.fields) {
    const name = resource && apiFieldOf(resource, column);
    if (name !== undefined) return { pointer: `#/${name}`, message };
  }
  const isOther = error.fields.length > 0;
  return { pointer: '', message: isOther ? `a field that this API doesn't set: ${message}` : message };
}

interface LoggedError {
  code: string;
  fields: string[];
  rule?: string;
  thrown_by?: string;
}

export function refusalForLog({ facts }: CrmFailure): LoggedError[] {
  return (facts.errors ?? []).map(({ code, fields, rule, message }) => {
    const thrower = thrownBy(message);
    return {
      code: code.replace(/\W/g, '').slice(0, longestName),
      fields: fields.filter((name) => /^[\w.]+$/.test(name) && name.length <= longestName),
      ...(rule !== undefined && { rule: rule.replace(/\W/g, '').slice(0, longestName) }),
      ...(isThrown(code) && thrower !== undefined && { thrown_by: thrower }),
    };
  });
}

const longestName = 100;

export function explain(error: CrmError, resource: Resource | undefined): string {
  const { says } = rowOf({ error, status: 400, request: resource ? { resource } : {} }) ?? {};
  const text = typeof says === 'function' ? says(error, resource) : says;
  return text ?? 'it breaks a rule in the CRM.';
}

function unknownReference(
  refusal: FailureFacts,
  resource: Resource | undefined,
  facts: ProblemFacts,
): Problem {
  const lookup = resource && lookupFieldOf(resource);
  return lookup === undefined ? rejected(refusal, resource, facts) : unknownMember(lookup, facts);
}
