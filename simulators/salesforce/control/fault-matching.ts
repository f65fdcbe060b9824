import type { ObjectType, Row } from '../org/schema.ts';
import type { FaultInput } from './fault-input.ts';

/** What a fault may be matched against. */
export interface FaultSubject {
  method: string;
  /** Path and query, decoded. */
  path: string;
  operation: string;
  object?: string | undefined;
  body: string;
}

function hasObject(subject: FaultSubject, object: string): boolean {
  if (subject.object?.toLowerCase() === object.toLowerCase()) return true;
  // Collections name their objects in the body, Composite in the URLs and queries of its subrequests.
  const name = RegExp.escape(object);
  return new RegExp(`"type"\\s*:\\s*"${name}"|(/sobjects/|\\bfrom\\s+)${name}\\b`, 'i').test(
    unescaped(subject.body),
  );
}

/** Method, operation and path alone. */
export function matchesCall({ match }: FaultInput, subject: FaultSubject): boolean {
  if (match.method !== undefined && match.method.toUpperCase() !== subject.method) return false;
  if (match.operation !== undefined && match.operation !== subject.operation) return false;
  return match.path === undefined || subject.path.includes(match.path);
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
