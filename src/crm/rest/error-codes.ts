import { allowedValues, longerThan, notOneOf, type Resource } from '../../records/resource.ts';
import type { CrmError, FailureKind } from '../failure.ts';
import { scrub } from '../mapping/names.ts';
import type { CrmRequest } from './request.ts';

interface Refusal {
  error: CrmError;
  status: number;
  request: Pick<CrmRequest, 'body' | 'resource'>;
}

interface ErrorRow {
  /** The last one may end in `*`, for any ending. */
  codes: readonly string[];
  only?: { where: string; holds: (refusal: Refusal) => boolean };
  kind: FailureKind;
  /** In a call with several records, another one may have caused this error. */
  mayBeOthers?: true;
  /** The description of the object may explain it: an administrator has changed what it is about. */
  ofOrg?: true;
  /** The fault of the field or the record, in words for callers; only where the kind is rejected. */
  says?: string | ((error: CrmError, resource: Resource | undefined) => string);
  advice: string;
}

const thrown = ['CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY', 'CANNOT_EXECUTE_FLOW_TRIGGER', 'DELETE_FAILED'];

export function isThrown(code: string): boolean {
  return thrown.includes(code);
}

/*
 * Texts are translated into the integration user's language; codes, names and values are not. So a condition on a text looks
 * for one of these, or for the English text beside a code that means nearly the same without it.
 */
const says = (text: RegExp) => (refusal: Refusal) => text.test(refusal.error.message);

/**
 * Salesforce's error codes; the first row that fits holds. REST Developer Guide, Status Codes and Error Responses; SOAP
 * Developer Guide, StatusCode. The code decides; the HTTP status only where the body is not the usual array, since sources
 * disagree about the pairs. docs/errors.md lists it.
 */
export const errorTable: readonly ErrorRow[] = [
  {
    codes: ['*'],
    only: { where: 'status 410', holds: ({ status }) => status === 410 },
    kind: 'setup',
    advice: 'The API version is retired: raise `crm.apiVersion`.',
  },
  // A valid session of a user that may not use the API. In other languages another token is tried first.
  {
    codes: ['INVALID_SESSION_ID'],
    only: { where: 'the session may not use the API', holds: says(/not valid for use/i) },
    kind: 'setup',
    advice: 'Give the app the scope api.',
  },
  {
    codes: ['INVALID_SESSION_ID', 'INVALID_AUTH_HEADER'],
    kind: 'session',
    advice: 'Nothing: the service gets a new token and repeats the call.',
  },
  {
    codes: ['API_CURRENTLY_DISABLED', 'SERVER_UNAVAILABLE', 'QUERY_TIMEOUT'],
    kind: 'busy',
    advice: "If it lasts, see Salesforce's status page.",
  },
  { codes: ['API_DISABLED_FOR_ORG'], kind: 'setup', advice: 'The org needs an edition with API access.' },
  {
    codes: ['REQUEST_LIMIT_EXCEEDED'],
    only: { where: '`ConcurrentRequests`', holds: says(/concurrent ?requests/i) },
    kind: 'busy',
    advice: 'Too many calls to the org take 20 seconds or more: see what is slow there.',
  },
  {
    codes: ['REQUEST_LIMIT_EXCEEDED'],
    kind: 'quota',
    advice: 'Find out what uses up the calls, or buy more.',
  },
  {
    codes: ['UNABLE_TO_LOCK_ROW'],
    kind: 'locked',
    mayBeOthers: true,
    advice: 'Find what keeps the same record, or its contact, locked for long.',
  },
  {
    codes: thrown,
    only: { where: 'caused by UNABLE_TO_LOCK_ROW', holds: says(/UNABLE_TO_LOCK_ROW/) },
    kind: 'locked',
    mayBeOthers: true,
    advice: 'As UNABLE_TO_LOCK_ROW, in a trigger or flow.',
  },
  {
    codes: thrown,
    only: { where: 'the object takes no records', holds: says(/^entity type cannot be/i) },
    kind: 'setup',
    ofOrg: true,
    advice: 'Name another object in the mapping.',
  },
  {
    codes: thrown,
    kind: 'rejected',
    mayBeOthers: true,
    ofOrg: true,
    says: thrownText,
    advice:
      'Fix the trigger or flow that `errors` and the log line name. Its error is in the debug log, or mailed to the administrator.',
  },
  {
    codes: ['*'],
    only: { where: '`Too many batch retries`', holds: says(/^Too many batch retries/i) },
    kind: 'rejected',
    mayBeOthers: true,
    says: 'it breaks a rule in the CRM.',
    advice: 'A trigger fails with several records; the service sends fewer at once.',
  },
  { codes: ['ENTITY_IS_LOCKED'], kind: 'conflict', advice: 'End the approval, or unlock the record.' },
  { codes: ['ENTITY_IS_DELETED'], kind: 'gone', advice: 'Nothing: the record was deleted.' },
  {
    codes: ['NOT_FOUND', 'INVALID_CROSS_REFERENCE_KEY'],
    only: { where: 'status 404', holds: ({ status }) => status === 404 },
    kind: 'gone',
    ofOrg: true,
    advice:
      'With a record in the path: nothing, it was deleted. Else 502 `crm_error`: deploy the object, give the user access to it, ' +
      'or set a `crm.apiVersion` that the org has.',
  },
  {
    codes: ['INVALID_FIELD'],
    only: { where: "the text has the member's id", holds: namesReference },
    kind: 'reference',
    advice: 'Give the contact this External ID, or tell the caller the right one.',
  },
  {
    codes: ['INVALID_CROSS_REFERENCE_KEY'],
    only: { where: '`fields` names no lookup of the API, but `RecordTypeId`, say', holds: isAboutOthers },
    kind: 'setup',
    ofOrg: true,
    advice: 'Assign this record type, owner or the like to the user, or set another in the mapping.',
  },
  {
    codes: ['INVALID_CROSS_REFERENCE_KEY'],
    kind: 'reference',
    ofOrg: true,
    advice:
      'The member was deleted, or the user may not see it. Without a member in the request: 502 `crm_error`.',
  },
  {
    codes: ['DUPLICATE_VALUE'],
    only: { where: 'the other record is `<unknown>`', holds: says(/<unknown>/) },
    kind: 'setup',
    advice: 'The user may not see the record with this value: give it View All Records.',
  },
  {
    codes: ['DUPLICATE_VALUE'],
    kind: 'duplicate',
    says: 'another record has the same value.',
    advice: 'A field of the object is unique in the org.',
  },
  {
    codes: ['DUPLICATES_DETECTED'],
    kind: 'rejected',
    says: 'a duplicate rule of the CRM takes it for a record that is there already.',
    advice:
      'Exempt the integration user from the rule; if it only warns, set `crm.duplicateRules` to `allow`.',
  },
  {
    codes: ['REQUIRED_FIELD_MISSING'],
    kind: 'rejected',
    ofOrg: true,
    says: 'is required.',
    advice: 'Give the field a default in the org, or set or add it in the mapping.',
  },
  {
    codes: ['STRING_TOO_LONG'],
    kind: 'rejected',
    ofOrg: true,
    says({ message }) {
      const limit = /\D(\d{1,7})\)\s*$/.exec(message)?.[1];
      return limit === undefined ? 'is too long.' : longerThan(Number(limit));
    },
    advice: 'Send less, or make the field longer.',
  },
  {
    codes: ['INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST'],
    kind: 'rejected',
    ofOrg: true,
    says: ({ fields }, resource) => {
      const values = fields.flatMap((column) => (resource && valuesOf(resource, column)) ?? []);
      return notOneOf(values);
    },
    advice: 'Add the value to the picklist, and to those of the record type.',
  },
  {
    codes: ['FIELD_CUSTOM_VALIDATION_EXCEPTION'],
    kind: 'rejected',
    says: ({ message }, resource) => scrub(message, resource) || "doesn't pass a validation rule.",
    advice: "The text is the validation rule's own. Change the rule, or exempt the integration user.",
  },
  {
    codes: ['FIELD_FILTER_VALIDATION_EXCEPTION'],
    kind: 'rejected',
    says: "refers to a record that a filter of the CRM doesn't admit.",
    advice: 'Change the filter of the lookup.',
  },
  {
    codes: ['JSON_PARSER_ERROR'],
    kind: 'broken',
    mayBeOthers: true,
    ofOrg: true,
    advice: 'A field has another type than the mapping or the caller expects: `crm.lacks` names it.',
  },
  {
    codes: [
      'FIELD_INTEGRITY_EXCEPTION',
      'INVALID_EMAIL_ADDRESS',
      'NUMBER_OUTSIDE_VALID_RANGE',
      'INVALID_TYPE_ON_FIELD_IN_RECORD',
    ],
    kind: 'rejected',
    ofOrg: true,
    says: "isn't a value that the CRM takes here.",
    advice: 'Send a value that fits the type and size of the field.',
  },
  {
    codes: ['INVALID_FIELD_FOR_INSERT_UPDATE'],
    kind: 'setup',
    ofOrg: true,
    advice: 'Give the user the right to edit the field, or take it out of the mapping: it may be a formula.',
  },
  {
    codes: ['INVALID_FIELD', 'INVALID_TYPE', 'MALFORMED_QUERY'],
    kind: 'setup',
    ofOrg: true,
    advice: 'Deploy the object or field, give the user the right to it, or name another in the mapping.',
  },
  {
    codes: ['INSUFFICIENT_ACCESS*'],
    kind: 'setup',
    ofOrg: true,
    advice: 'Give the user the permission set of the package.',
  },
];

/** The row of an error; undefined for a code that is not known, which any record of the call may have caused. */
export function rowOf(refusal: Refusal): ErrorRow | undefined {
  return errorTable.find(
    ({ codes, only }) =>
      codes.some((code) => isCode(code, refusal.error.code)) && (only?.holds(refusal) ?? true),
  );
}

function isCode(pattern: string, code: string): boolean {
  return pattern.endsWith('*') ? code.startsWith(pattern.slice(0, -1)) : pattern === code;
}

export function referencesIn({ body = {} }: Pick<CrmRequest, 'body'>): object[] {
  return Object.values(body).filter(
    (value: unknown): value is object => typeof value === 'object' && value !== null && !('rawJSON' in value),
  );
}

/** `Foreign key external ID: <key> not found for field X__c in entity Parent__c`, in whatever language. */
function namesReference({ error, request }: Refusal): boolean {
  const text = error.message.toLowerCase();
  const keys = referencesIn(request).flatMap((reference): unknown[] => Object.values(reference));
  return keys.some((key) => typeof key === 'string' && text.includes(key.toLowerCase()));
}

function isAboutOthers({ error: { fields }, request: { resource } }: Refusal): boolean {
  const lookups = Object.values(resource?.fields ?? {}).flatMap(({ crm: { lookupColumn } }) =>
    lookupColumn === undefined ? [] : lookupColumn.toLowerCase(),
  );
  return fields.length > 0 && !fields.some((name) => lookups.includes(name.toLowerCase()));
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

function thrownText({ message }: CrmError, resource: Resource | undefined): string {
  const rule = scrub(ruleTextIn(message), resource);
  const name = thrownBy(message);
  if (name === undefined) return rule || 'it breaks a rule in the CRM.';
  return rule ? `${rule} (${name})` : `its trigger or flow ${name} failed.`;
}

/**
 * The trigger, process or flow that an error comes from: `Audit_Trigger: execution of BeforeInsert …`, or `… because the
 * “Audit” process failed`, in whatever language. Undefined where the error names none.
 */
export function thrownBy(message: string): string | undefined {
  const start = message.slice(0, longestRuleText);
  const trigger = /^([\w.]{1,80}): execution of /.exec(start)?.[1];
  return trigger ?? /[“„«「]([\p{L}\p{N}_ .-]{1,80})[”“»」]/u.exec(start)?.[1];
}

function valuesOf({ fields }: Resource, column: string): readonly string[] | undefined {
  const field = Object.values(fields).find(({ crm }) => crm.path.toLowerCase() === column.toLowerCase());
  return field && allowedValues(field);
}

const ruleCode = 'FIELD_CUSTOM_VALIDATION_EXCEPTION';
const longestRuleText = 2000;
