import { createHash } from 'node:crypto';
import type { Authentication } from '../../identity/consumers/authentication.ts';
import { type Consumer, isActive } from '../../identity/consumers/consumer.ts';
import type { ConsumerDirectory } from '../../identity/consumers/directory.ts';
import { mayActAs } from '../../identity/consumers/people.ts';
import { randomBytes, wallMs } from '../../platform/base/chance.ts';
import { compileNetworks } from '../../platform/base/networks.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { consumersOf, type SignedInPerson } from './person.ts';
import type { Session, SessionsTable } from './sessions-table.ts';

const kept = { keeps: 'holds the sessions of people' };
const signInAgain = 'Your session has ended. Sign in again.';

export interface OpenSession extends Session {
  consumer: Consumer;
}

interface SessionsOptions {
  table: SessionsTable;
  directory: Pick<ConsumerDirectory, 'consumer' | 'newestFirst' | 'catchUp'>;
}

/** Sessions of people. A session is a text that only the person's browser has; the database has its hash. */
export class PeopleSessions {
  readonly #table: SessionsTable;
  readonly #directory: SessionsOptions['directory'];
  readonly #addresses = new WeakMap<Consumer, (address: string) => boolean>();

  constructor({ table, directory }: SessionsOptions) {
    this.#table = table;
    this.#directory = directory;
  }

  /** Begins one as the first of these consumers; the text is new each time. Throws `Problem` store_unavailable. */
  async begin(person: SignedInPerson, idToken: string, consumers: readonly Consumer[]): Promise<string> {
    const session = randomBytes(32).toString('base64url');
    const consumer = consumers[0] as Consumer;
    await orUnavailable(() => this.#table.add({ ...person, hash: hashOf(session), idToken, consumer }), kept);
    return session;
  }

  async consumersFor({ claims }: Pick<SignedInPerson, 'claims'>): Promise<Consumer[]> {
    await this.#directory.catchUp();
    return consumersOf(claims, this.#directory.newestFirst(), (consumer) => isActive(consumer, wallMs()));
  }

  async authenticate(session: string): Promise<Authentication> {
    const found = await this.#find(session);
    if ('result' in found) return found;
    const { consumer, subject, actor } = found;
    return {
      result: 'accepted',
      consumer: { ...consumer, person: { subject, actor } },
      consumerId: consumer.id,
      // No key: a name with a slash, as those of public keys.
      credential: `${consumer.id}/session`,
      admitsFrom: (address) => this.#admits(consumer, address),
    };
  }

  /** Undefined where it has ended. Throws as above. */
  async open(session: string): Promise<OpenSession | undefined> {
    const found = await this.#find(session);
    return 'result' in found ? undefined : found;
  }

  /** False where it has ended. Throws as above. */
  choose(session: string, consumer: Consumer): Promise<boolean> {
    return orUnavailable(() => this.#table.choose(hashOf(session), consumer), kept);
  }

  /** Returns the ID token of the one that it has ended; undefined where there was none. Throws as above. */
  end(session: string): Promise<string | undefined> {
    return orUnavailable(() => this.#table.end(hashOf(session)), kept);
  }

  async #find(session: string): Promise<OpenSession | Exclude<Authentication, { result: 'accepted' }>> {
    const found = await orUnavailable(() => this.#table.use(hashOf(session)), kept);
    // This process has paused: the session may have ended meanwhile, too.
    const catchingUp = this.#directory.catchUp();
    if (catchingUp !== undefined) return catchingUp.then(() => this.#find(session));
    if (found === undefined) return { result: 'unknown_key', consumerId: null, advice: signInAgain };
    const { consumer_id: consumerId, chosen_at } = found;
    const consumer = this.#directory.consumer(consumerId);
    const refused = (result: 'revoked' | 'disabled' | 'expired') => ({
      result,
      consumerId,
      advice: signInAgain,
    });
    if (consumer === undefined) return refused('revoked');
    const ended = endOf(found, consumer);
    if (ended === undefined) return { ...found, consumer };
    // For good, where that is newer than the session: a replica that is behind says nothing of it.
    if (Date.parse(consumer.updatedAt) > chosen_at.getTime()) await this.end(session);
    return refused(ended);
  }

  #admits(consumer: Consumer, address: string): boolean {
    const { allowedAddresses = [] } = consumer;
    if (allowedAddresses.length === 0) return true;
    const admits = this.#addresses.get(consumer) ?? compileNetworks(allowedAddresses);
    this.#addresses.set(consumer, admits);
    return admits(address);
  }
}

/** A consumer that was disabled since and is back has ended its sessions, and so has a person who was taken out and is back. */
function endOf(
  { claims, chosen_at }: Session,
  consumer: Consumer,
): 'revoked' | 'disabled' | 'expired' | undefined {
  if (!mayActAs(claims, consumer, chosen_at.getTime())) return 'revoked';
  const { enabled, enabledAt } = consumer;
  const isBack = enabledAt !== undefined && Date.parse(enabledAt) > chosen_at.getTime();
  if (enabled === false || isBack) return 'disabled';
  return isActive(consumer, wallMs()) ? undefined : 'expired';
}

function hashOf(session: string): string {
  return createHash('sha256').update(session).digest('hex');
}

/** 32 random bytes in base64url. */
const secretPattern = '[\\w-]{43}';
/** Sign-ins that one browser has begun, each in a tab of its own; of more, the oldest are forgotten. */
const mostBegun = 4;
/** Seconds that a person has to sign in at the issuer. */
const signInSeconds = 900;

export interface Cookies {
  session: Cookie<string>;
  signIn: Cookie<readonly string[]>;
}

interface Cookie<V> {
  /** Its value in a Cookie header; undefined where it has none of the right form. */
  in(header: string | undefined): V | undefined;
  /** For Set-Cookie; undefined deletes it. */
  set(value: V | undefined): string;
}

/**
 * `isSecure`: the console is reached by https. Only then the name can have the prefix by which browsers let nobody but this very
 * host set the cookie; without https nobody but this machine reaches the console.
 */
export function createCookies(isSecure: boolean, sessionSeconds: number): Cookies {
  const cookie = (name: string, value: string, seconds: number): Cookie<string> => {
    const full = isSecure ? `__Host-${name}` : name;
    const pattern = new RegExp(`(?:^|;\\s*)${full}=(${value})(?=\\s*(?:;|$))`);
    const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
    return {
      in: (header) => (header === undefined ? undefined : pattern.exec(header)?.[1]),
      set: (text) =>
        `${full}=${text ?? ''}; Max-Age=${text === undefined ? 0 : Math.ceil(seconds)}; ${attributes}`,
    };
  };
  const begun = cookie(
    'handoff-sign-in',
    `${secretPattern}(?:\\.${secretPattern}){0,${mostBegun - 1}}`,
    signInSeconds,
  );
  return {
    session: cookie('handoff', secretPattern, sessionSeconds),
    signIn: {
      in: (header) => begun.in(header)?.split('.'),
      set: (all = []) => begun.set(all.slice(0, mostBegun).join('.') || undefined),
    },
  };
}
