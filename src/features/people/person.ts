import type { Consumer } from '../../identity/consumers/consumer.ts';
import { type Claims, claimsThatCount, mayActAs } from '../../identity/consumers/people.ts';
import { escapeInvisible, startOf } from '../../platform/base/text.ts';

export interface SignedInPerson {
  subject: string;
  /** As records name the person: the e-mail address where it is verified, else another name, else the subject. */
  actor: string;
  name: string | null;
  /** Null where it is not verified: it may be somebody else's. */
  email: string | null;
  claims: Claims;
}

/** Characters of an actor at most, as the CRM's field has them. */
const maxActor = 255;

export function personOf(token: Readonly<Record<string, unknown>>): SignedInPerson {
  const subject = String(token['sub']);
  const email = token['email_verified'] === true ? textOf(token['email']) : null;
  return {
    subject,
    actor: email ?? textOf(token['preferred_username']) ?? textOf(subject) ?? subject,
    name: textOf(token['name']),
    email,
    claims: claimsThatCount(token),
  };
}

/** As it is shown and stored: people are compared by it, so what cannot be seen must not tell two apart. */
function textOf(value: unknown): string | null {
  if (typeof value !== 'string' || !/\S/.test(value)) return null;
  return startOf(escapeInvisible(value), maxActor);
}

export function consumersOf(
  claims: Claims,
  consumers: readonly Consumer[],
  isUsable: (consumer: Consumer) => boolean,
): Consumer[] {
  return consumers
    .filter((consumer) => mayActAs(claims, consumer) && isUsable(consumer))
    .toSorted((a, b) => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1));
}

/**
 * A claim that some consumer asks for and that the issuer has left out since it has too many values: then the token says where
 * they are (OpenID Connect Core, 5.6.2; Entra ID does so with more than 200 groups).
 */
export function claimElsewhere(
  token: Readonly<Record<string, unknown>>,
  consumers: readonly Consumer[],
): string | undefined {
  const names = token['_claim_names'];
  if (typeof names !== 'object' || names === null) return undefined;
  const wanted = new Set(consumers.flatMap(({ people = [] }) => people.map(({ claim }) => claim)));
  return Object.keys(names).find((name) => wanted.has(name));
}
