import { Problem } from '../../platform/base/problem.ts';
import type { RouteAnswer } from '../route.ts';

const tag = /(?:W\/)?"[^"]*"/g;

/** Whether If-None-Match names this entity tag, so that 304 is the answer (weak comparison, RFC 9110 section 13.1.2). */
export function isNotModified(header: string | undefined, entityTag: string): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return (header.match(tag) ?? []).some((candidate) => candidate.replace(/^W\//, '') === entityTag);
}

interface TaggedAnswer {
  status: number;
  body: string;
  headers: { etag: string; 'cache-control'?: string; age?: string };
}

export function unlessNotModified(header: string | undefined, answer: TaggedAnswer): RouteAnswer {
  return isNotModified(header, answer.headers.etag) ? { status: 304, headers: answer.headers } : answer;
}

export function isConditional(header: string | undefined): boolean {
  return header !== undefined && header.trim() !== '*';
}

export function isMatch(header: string | undefined, entityTag: string): boolean {
  if (header === undefined || !isConditional(header)) return true;
  const candidates: string[] = header.match(tag) ?? [];
  return candidates.includes(entityTag);
}

/**
 * Checks If-Match against the record as it is now (strong comparison: a weak tag never matches, RFC 9110 section
 * 13.1.1). Throws `precondition_failed`.
 */
export function requireMatch(header: string | undefined, entityTag: string): void {
  if (isMatch(header, entityTag)) return;
  throw new Problem(
    'precondition_failed',
    'The record has changed since the version in If-Match; read it again.',
  );
}

export const tagHeader = { ETag: 'Strong entity tag of the record, for If-Match and If-None-Match.' };
