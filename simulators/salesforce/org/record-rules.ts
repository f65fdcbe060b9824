import { ApiError } from './api-error.ts';
import type { DuplicateRule } from './description.ts';
import type { Org } from './org.ts';
import {
  type Draft,
  type Field,
  foldFor,
  type ObjectType,
  type Row,
  readField,
  type Value,
} from './schema.ts';
import { notInPicklist } from './values.ts';

/** A record that is about to be written, and as it was. */
interface Pair {
  before: Row | undefined;
  draft: Draft;
}

function isChanged({ before, draft }: Pair, { name }: Field): boolean {
  return draft[name] !== undefined && draft[name] !== before?.[name];
}

/** Values that the picklist has, and the record's type does not allow. */
function recordTypeErrors(type: ObjectType, pair: Pair): ApiError[] {
  const recordType = type.recordTypes.find(({ id }) => id === pair.draft.RecordTypeId);
  return [...(recordType?.picklists ?? [])].flatMap(([name, allowed]) => {
    const field = type.all.get(name.toLowerCase());
    if (field === undefined || !isChanged(pair, field)) return [];
    const refused = String(pair.draft[field.name])
      .split(';')
      .find((value) => !allowed.has(value));
    return refused === undefined ? [] : [notInPicklist(field, refused)];
  });
}

/** Parents that exist and do not fit the lookup's filter. */
function lookupFilterErrors(org: Org, type: ObjectType, pair: Pair): ApiError[] {
  return [...type.all.values()].flatMap((field) => {
    const { lookupFilter: filter, referenceTo } = field;
    const target = org.schema.find(referenceTo[0] ?? '');
    if (filter === undefined || target === undefined || !isChanged(pair, field)) return [];
    const parent = org.store.get(target, String(pair.draft[field.name]).slice(0, 15));
    const filtered = target.all.get(filter.field.toLowerCase());
    if (parent === undefined || filtered === undefined) return [];
    if ((readField(parent, filtered) ?? null) === filter.equals) return [];
    const message = filter.message ?? 'Value does not exist or does not match filter criteria.';
    return [new ApiError(400, 'FIELD_FILTER_VALIDATION_EXCEPTION', message, [field.name])];
  });
}

/** What record types and lookup filters refuse of a record. */
export function contentErrors(org: Org, type: ObjectType, pair: Pair): ApiError[] {
  return [...recordTypeErrors(type, pair), ...lookupFilterErrors(org, type, pair)];
}

/** The records that have the same values in the fields of a rule; empty fields are never the same. */
function duplicatesOf(org: Org, type: ObjectType, rule: DuplicateRule, draft: Draft): Row[] {
  const fields = rule.fields.flatMap((name) => type.all.get(name.toLowerCase()) ?? []);
  const wanted = fields.map((field): [Field, Value | undefined] => [field, readField(draft, field)]);
  const known = wanted.filter((each): each is [Field, Value] => each[1] !== undefined);
  if (known.length < rule.fields.length) return [];
  const table = org.store.table(type);
  const indexed = known.find(([{ name }]) => table.indexes.has(name));
  const rows = indexed === undefined ? [...table.rows.values()] : org.store.find(type, ...indexed);
  const isSame = (row: Row): boolean =>
    known.every(([field, value]) => {
      const own = readField(row, field);
      const fold = foldFor(field);
      return own !== undefined && fold(own) === fold(value);
    });
  return rows.filter((row) => row.Id !== draft.Id && isSame(row));
}

function duplicateError(type: ObjectType, rule: DuplicateRule, found: readonly Row[]): ApiError {
  const message = rule.message ?? 'Use one of these records?';
  const matchRecords = found.map((row) => ({
    additionalInformation: [],
    fieldDiffs: [],
    matchConfidence: 100.0,
    record: {
      attributes: { type: type.name, url: `/services/data/v68.0/sobjects/${type.name}/${row.Id}` },
      Id: row.Id,
    },
  }));
  const duplicateResult = {
    allowSave: rule.action === 'alert',
    duplicateRule: rule.name,
    duplicateRuleEntityType: type.name,
    errorMessage: message,
    matchResults: [
      {
        entityType: type.name,
        errors: [],
        matchEngine: 'ExactMatchEngine',
        matchRecords,
        rule: `${rule.name}_Match`,
        size: matchRecords.length,
        success: true,
      },
    ],
  };
  return new ApiError(400, 'DUPLICATES_DETECTED', message, undefined, {}, [], { duplicateResult });
}

/**
 * The error of the first duplicate rule that refuses the record, or undefined.
 * @param allowed the caller saves duplicates that a rule only warns of (Sforce-Duplicate-Rule-Header, `allowSave`).
 */
export function duplicateRefusal(
  org: Org,
  type: ObjectType,
  draft: Draft,
  allowed: boolean,
): ApiError | undefined {
  for (const rule of type.duplicateRules) {
    if (allowed && rule.action === 'alert') continue;
    const found = duplicatesOf(org, type, rule, draft);
    if (found.length > 0) return duplicateError(type, rule, found);
  }
  return undefined;
}
