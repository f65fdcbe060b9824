import { createHash } from 'node:crypto';
import { Problem } from '../../platform/base/problem.ts';
import type { Consumer } from './consumer.ts';

/** Entries of one consumer at most. */
export const maxPeople = 20;
/** Characters of a claim's name and of a value at most. */
export const maxClaimName = 100;
export const maxClaimValue = 255;

export interface PersonClaim {
  claim: string;
  value: string;
}

export type Claims = Readonly<Record<string, string | readonly string[]>>;

const claimsOfTokens = new Set([
  'iss',
  'aud',
  'azp',
  'exp',
  'iat',
  'nbf',
  'auth_time',
  'nonce',
  'at_hash',
  'c_hash',
]);

export function markOf(subject: string): string {
  return createHash('sha256').update(`person ${subject}`).digest('base64url').slice(0, 22);
}

/** The entries as they are stored, each once. Throws `Problem` invalid_request. */
export function checkPeople(people: readonly PersonClaim[]): PersonClaim[] {
  const message = 'is in every token, so it would let everyone in; name a claim that says who the person is';
  const errors = people.flatMap(({ claim }, i) =>
    claimsOfTokens.has(claim) ? [{ pointer: `#/people/${i}/claim`, message }] : [],
  );
  if (errors.length > 0)
    throw new Problem('invalid_request', `The consumer isn't valid: people ${message}.`, { errors });
  return [...new Map(entriesOf(people).map((entry) => [JSON.stringify(entry), entry])).values()];
}

/** Without when they were added. */
export function entriesOf(people: readonly PersonClaim[]): PersonClaim[] {
  return people.map(({ claim, value }) => ({ claim, value }));
}

/** Entries that stay keep when they were added: the sessions that they admit go on. */
export function peopleSince(
  addedAt: string,
  people: readonly PersonClaim[],
  { people: before = [] }: Pick<Consumer, 'people'>,
): Consumer['people'] {
  return people.map(
    (entry) =>
      before.find(({ claim, value }) => claim === entry.claim && value === entry.value) ?? {
        ...entry,
        addedAt,
      },
  );
}

/** The claims of an ID token that may count. An e-mail address that the provider has not verified may be somebody else's. */
export function claimsThatCount(token: Readonly<Record<string, unknown>>): Claims {
  const counting: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(token)) {
    if (claimsOfTokens.has(name) || name.length > maxClaimName || !isStorable(name)) continue;
    if (name === 'email' && token['email_verified'] !== true) continue;
    const texts = textsOf(value);
    if (texts.length > 0) counting[name] = Array.isArray(value) ? texts : (texts[0] as string);
  }
  return counting;
}

/** The database holds no half of a surrogate pair and no NUL: with one, nobody could begin a session. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

function textsOf(value: unknown): string[] {
  const one = (item: unknown) =>
    ['string', 'number', 'boolean'].includes(typeof item) &&
    String(item).length <= maxClaimValue &&
    isStorable(String(item))
      ? [String(item)]
      : [];
  return Array.isArray(value) ? value.flatMap(one) : one(value);
}

/** `since`: the last change of the consumer that a session knows, in milliseconds since 1970. */
export function mayActAs(
  claims: Claims,
  { people = [] }: Pick<Consumer, 'people'>,
  since = Number.POSITIVE_INFINITY,
): boolean {
  return people.some(({ claim, value, addedAt }) => {
    if (addedAt !== undefined && Date.parse(addedAt) > since) return false;
    const found = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
    return typeof found === 'string' ? found === value : found?.includes(value) === true;
  });
}
