import type { ObjectType, Row } from '../org/schema.ts';
import type { FaultInput } from './fault-input.ts';

/** What a call asks for. */
export interface FaultTarget {
  method: string;
  /** Path and query, decoded. */
  path: string;
  operation: string;
  object?: string | undefined;
}

/** What a fault may be matched against. */
export interface FaultSubject extends FaultTarget {
  body: string;
  /** The first part of a Composite call, under which it is known as well. */
  firstPart?: FaultTarget | undefined;
}

function hasObject(subject: FaultSubject, object: string): boolean {
  if (subject.object?.toLowerCase() === object.toLowerCase()) return true;
  // Collections name their objects in the body, Composite in the URLs and queries of its subrequests.
  const name = RegExp.escape(object);
  return new RegExp(`"type"\\s*:\\s*"${name}"|(/sobjects/|\\bfrom\\s+)${name}\\b`, 'i').test(
    unescaped(subject.body),
  );
}

/** Method, operation and path alone, of the call or of the first part of a Composite call. */
export function matchesCall({ match }: FaultInput, subject: FaultSubject): boolean {
  const { method, operation, path } = match;
  if (method === undefined && operation === undefined && path === undefined) return true;
  const isMeant = (target: FaultTarget): boolean =>
    (method === undefined || method.toUpperCase() === target.method) &&
    (operation === undefined || operation === target.operation) &&
    (path === undefined || target.path.includes(path));
  return isMeant(subject) || (subject.firstPart !== undefined && isMeant(subject.firstPart));
}

/** All that the fault asks of a call. */
export function matches(fault: FaultInput, subject: FaultSubject): boolean {
  const { match } = fault;
  if (!matchesCall(fault, subject)) return false;
  if (match.object !== undefined && !hasObject(subject, match.object)) return false;
  return match.recordKey === undefined || hasKey(subject, match.recordKey);
}

/** The whole key, not a part of another one: `a1` is not in `a10` nor in `ba1`. */
function hasKey(subject: FaultSubject, key: string): boolean {
  const pattern = new RegExp(`(?<![\\w-])${RegExp.escape(key)}(?![\\w-])`);
  return pattern.test(subject.path) || pattern.test(unescaped(subject.body));
}

/** URLs inside a Composite body are percent-encoded: `%27k1%27` holds the key k1, not 27k1. */
function unescaped(body: string): string {
  return body.replace(/%[0-9a-fA-F]{2}|\+/g, ' ');
}

/** Object and key of one record. */
export function matchesRecord({ match }: FaultInput, type: ObjectType, row: Row): boolean {
  if (match.object !== undefined && match.object.toLowerCase() !== type.name.toLowerCase()) return false;
  const { recordKey } = match;
  return recordKey === undefined || Object.values(row).some((value) => value === recordKey);
}
