import type { Org } from '../org/org.ts';
import {
  type Field,
  findField,
  findRelationship,
  type ObjectType,
  type Row,
  readField,
  type Value,
} from '../org/schema.ts';
import { fieldError, unknownColumn } from './query-error.ts';

/** A field of the queried object or, over lookups, of one of its parents. */
export interface FieldPath {
  /** The lookups from the queried object upwards. */
  lookups: { field: Field; target: ObjectType }[];
  field: Field;
  read(row: Row): Value | undefined;
}

const MAX_LEVELS = 5;

function resolveLookups(org: Org, type: ObjectType, soql: string, names: string[]): FieldPath['lookups'] {
  const lookups: FieldPath['lookups'] = [];
  let current = type;
  for (const name of names) {
    const field = findRelationship(current, name);
    const target = field && parentOf(org, field);
    if (field === undefined || target === undefined || lookups.length >= MAX_LEVELS) {
      throw fieldError(
        soql,
        name,
        `Didn't understand relationship '${name}' in field path. If you are attempting to use a custom relationship, be sure to append the '__r' after the custom relationship name. Please reference your WSDL or the describe call for the appropriate names.`,
      );
    }
    lookups.push({ field, target });
    current = target;
  }
  return lookups;
}

/** The object that a lookup leads to; of a polymorphic one the first that the org has. */
function parentOf(org: Org, { referenceTo }: Field): ObjectType | undefined {
  return referenceTo.flatMap((name) => org.schema.find(name) ?? [])[0];
}

/** The parent that a lookup of this record points to. */
export function followLookup(
  org: Org,
  row: Row,
  lookup: { field: Field; target: ObjectType },
): Row | undefined {
  const id = row[lookup.field.name];
  // Of a polymorphic lookup this is empty where it leads to another object: TYPEOF is not simulated.
  return typeof id === 'string' ? org.store.get(lookup.target, id.slice(0, 15)) : undefined;
}

/** @throws ApiError INVALID_FIELD for a column or relationship that is not there. */
export function resolvePath(org: Org, type: ObjectType, soql: string, path: string): FieldPath {
  const names = path.split('.');
  const last = names.pop() ?? '';
  // `Quote__c.Name` in a query on Quote__c is the same as `Name`.
  if (names[0]?.toLowerCase() === type.name.toLowerCase()) names.shift();
  const lookups = resolveLookups(org, type, soql, names);
  const owner = lookups.at(-1)?.target ?? type;
  const field = findField(owner, last);
  if (field === undefined) throw unknownColumn(soql, last, owner.name);
  if (lookups.length === 0) return { lookups, field, read: (row) => readField(row, field) };
  return {
    lookups,
    field,
    read: (row) => {
      let current: Row | undefined = row;
      for (const lookup of lookups)
        current = current === undefined ? undefined : followLookup(org, current, lookup);
      return current === undefined ? undefined : readField(current, field);
    },
  };
}
