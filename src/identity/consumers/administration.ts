import { type Mode, modeOf } from '../../platform/base/call.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Log } from '../../platform/observability/log.ts';
import {
  retryOnConflict,
  type SecretsManager,
  SecretsUnavailable,
  VersionConflict,
} from '../../platform/secrets/secrets-manager.ts';
import type { Author } from '../audit/audit-event.ts';
import { logAuditEvent } from '../audit/audit-event-archive.ts';
import { type Authority, checkAuthority, checkCreation, checkRevocation } from './authority.ts';
import { type Consumer, momentOfChange } from './consumer.ts';
import { type ConsumerChange, checkChange } from './consumer-change.ts';
import {
  activeCredential,
  type ConsumerStore,
  type CreatedConsumer,
  type NewConsumer,
  type VersionedConsumer,
} from './consumer-store.ts';
import { type CredentialPair, isConsumerId, makeCredentialPair } from './credentials.ts';
import type { ConsumerDirectory } from './directory.ts';
import type { Keys } from './keys.ts';
import { peopleSince } from './people.ts';
import { checkPermissions, type FieldNames } from './permissions.ts';
import { commandLine, type EventArchive, recordChange, waitingEvents, withRoom } from './record-changes.ts';
import { rotateCredentials } from './rotation.ts';
import { BrokenConsumer, undefinedIfBroken } from './stored-consumer.ts';
import { confirmPlace, leavePlace, takePlace } from './test-families.ts';

const lastRaisedName = 'crm-shares';
/** Per cent of the calls. */
const wholePercent = 100;

interface SharesOptions {
  secrets: Pick<SecretsManager, 'read' | 'write'>;
  store: Pick<ConsumerStore, 'find' | 'list' | 'save'>;
}

/** Throws `Problem` conflict where the shares of the other consumers leave less. Throws `SecretsUnavailable`. */
async function requireFreeShare(
  { id, crmShare }: { id?: string; crmShare: number },
  { store }: Pick<SharesOptions, 'store'>,
): Promise<void> {
  let left = wholePercent;
  for (const other of await store.list()) if (other.id !== id) left -= other.crmShare ?? 0;
  if (crmShare <= left) return;
  throw new Problem(
    'conflict',
    `crmShare can be at most ${left}: the other consumers' shares add up to ${wholePercent - left}, and all shares to at most ${wholePercent}.`,
  );
}

/**
 * Checks a consumer whose record was read before and is about to be written with a larger share, in a way that two raises
 * at the same time cannot both succeed, on whichever replica or command line. A raise writes who it is for. The next one
 * first marks that consumer's record: if it is not written yet, that write fails and its request starts again; if it is,
 * its share counts. Throws `VersionConflict` as well, where another raise came first.
 */
async function holdShare(consumer: Consumer, options: SharesOptions): Promise<void> {
  const { secrets, store } = options;
  const { id, crmShare } = consumer;
  const last = await secrets.read(lastRaisedName);
  const lastId = last?.value.trim() ?? id;
  const other = lastId === id ? undefined : await store.find(lastId).catch(undefinedIfBroken);
  if (other !== undefined) await store.save({ ...other.consumer, shareMark: randomUUID() }, other.version);
  await requireFreeShare({ id, crmShare: crmShare ?? 0 }, options);
  await secrets.write(lastRaisedName, `${id}\n`, last?.version ?? null);
}

export interface Rotation extends CredentialPair {
  id: string;
  rotatedAt: string;
  /** Null where no pair was active before. */
  previous: { apiKey: string; expiresAt: string } | null;
}

type Change = ConsumerChange | ((consumer: Consumer) => ConsumerChange);

/**
 * Each change of a consumer is written to the secrets manager with compare-and-set, applied by this process at once and
 * announced to the others. Throws `Problem`: `not_found` for an unknown or malformed id, `invalid_request`,
 * `secrets_unavailable`, and `conflict` for a record that is broken or changes all the time. With an authority also
 * `permission_denied` for what exceeds the caller, and `conflict` for what would leave no administrator.
 */
export interface ConsumerAdministration {
  create(wanted: NewConsumer, authority?: Authority): Promise<CreatedConsumer>;
  /** As the secrets manager has it; as it is loaded while that is unavailable. */
  find(id: string): Promise<Consumer>;
  change(id: string, change: Change, authority?: Authority): Promise<Consumer>;
  rotate(id: string, graceWindowHours?: number, authority?: Authority): Promise<Rotation>;
  revoke(id: string, authority?: Authority): Promise<void>;
}

interface AdministrationOptions {
  store: ConsumerStore;
  secrets: SecretsManager;
  directory: ConsumerDirectory;
  keys: Keys;
  /** Notifies the other replicas of a change; never fails. */
  announce: (id: string) => Promise<void>;
  log: Log;
  fieldNames: FieldNames;
  graceWindowHours: number;
  /** Milliseconds since 1970. */
  clock: () => number;
  archive: EventArchive | undefined;
}

export function createConsumerAdministration(options: AdministrationOptions): ConsumerAdministration {
  const { store, keys, fieldNames, clock } = options;

  async function update(
    id: string,
    change: (consumer: Consumer) => Consumer,
    authority?: Authority,
    kind?: 'consumer.rotated',
  ): Promise<Consumer> {
    const saved = await changing(async () => {
      const { consumer, version } = await findIn(store, id);
      const recorded = recordChange(consumer, change(consumer), authorOf(authority), clock(), kind);
      if (authority) await checkAuthority(authority, consumer, recorded, options);
      const changed = await withRoom(recorded, options.archive);
      return save(consumer, { consumer: changed, version }, options);
    });
    await applyAndAnnounce(options, saved);
    return saved.consumer;
  }

  return {
    create: (wanted, authority) => create(wanted, authority, options),
    find: (id) => findOrLoaded(id, options),
    change: (id, change, authority) => {
      const apply = (consumer: Consumer) => {
        const checked = checkChange(typeof change === 'function' ? change(consumer) : change, fieldNames);
        requireNoTestShare(modeOf(id), checked.crmShare);
        return withChange(consumer, checked, momentOfChange(consumer, clock()));
      };
      return update(id, apply, authority);
    },
    rotate: async (id, graceWindowHours = options.graceWindowHours, authority?) => {
      if (!isConsumerId(id)) consumerNotFound();
      const pair = makeCredentialPair(id);
      const { pepper } = await asProblems(() => keys.load());
      let before: string | undefined;
      const rotate = (consumer: Consumer) => {
        before = consumer.credentials.find(({ state }) => state === 'active')?.apiKey;
        const now = clock();
        const replacement = activeCredential(pair, pepper, new Date(now).toISOString());
        return rotateCredentials(consumer, replacement, now, graceWindowHours);
      };
      const rotated = await update(id, rotate, authority, 'consumer.rotated');
      return { id, ...pair, rotatedAt: rotated.rotatedAt as string, previous: previousOf(rotated, before) };
    },
    revoke: async (id, authority) => {
      const revoked = await changing(async () => {
        const version = authority && (await checkRevocation(authority, () => findIn(store, id), options));
        if (!isConsumerId(id)) return consumerNotFound();
        return (await writing(() => store.revoke(id, authorOf(authority), version))) ?? consumerNotFound();
      });
      await applyAndAnnounce(options, revoked);
      const { ancestors } = revoked.consumer;
      // Where this fails, the place is found free once the family is full.
      if (ancestors) await leavePlace({ id, ancestors }, options).catch(() => undefined);
    },
  };
}

/** Says since when it is enabled again or names a person, since sessions of people from before have ended. */
function withChange(consumer: Consumer, change: Partial<Consumer>, updatedAt: string): Consumer {
  const isBack = consumer.enabled === false && change.enabled === true;
  const people = change.people && peopleSince(updatedAt, change.people, consumer);
  return {
    ...consumer,
    ...change,
    ...(people && { people }),
    ...(isBack && { enabledAt: updatedAt }),
    updatedAt,
  };
}

async function save(
  before: Consumer,
  { consumer, version }: VersionedConsumer,
  options: AdministrationOptions,
): Promise<VersionedConsumer> {
  if ((consumer.crmShare ?? 0) > (before.crmShare ?? 0)) await writing(() => holdShare(consumer, options));
  return { consumer, version: await writing(() => options.store.save(consumer, version)) };
}

async function create(
  given: NewConsumer,
  authority: Authority | undefined,
  options: AdministrationOptions,
): Promise<CreatedConsumer> {
  const { store, fieldNames } = options;
  const { crmShare, ...others } = given;
  const wanted = { ...others, mode: modeFor(given, authority) };
  requireNoTestShare(wanted.mode, crmShare);
  const bounds = {
    ...checkChange(given, fieldNames),
    permissions: checkPermissions(given.permissions, fieldNames),
    mode: wanted.mode,
  };
  const caller = authority && (await asProblems(() => checkCreation(authority, bounds, options)));
  if (crmShare) await asProblems(() => requireFreeShare({ crmShare }, options));
  const isOfFamily = caller !== undefined && modeOf(caller.id) === 'test';
  const place = isOfFamily ? await asProblems(() => takePlace(caller, options)) : undefined;
  const created = await writing(() => store.create(wanted, authorOf(authority), place), unknownCreation);
  await applyAndAnnounce(options, created);
  if (place)
    await orRevoked(() => confirmPlace(place, options), created, { author: authorOf(authority), options });
  return crmShare ? giveShare(created, crmShare, authorOf(authority), options) : created;
}

/** The mode of a new consumer. Throws `permission_denied` where a test consumer makes a live one. */
function modeFor({ mode }: NewConsumer, authority: Authority | undefined): Mode {
  const own = modeOf(authority?.callerId);
  if (own === 'test' && mode === 'live')
    throw new Problem(
      'permission_denied',
      'These are test credentials, so they can only create test consumers.',
    );
  return mode ?? own;
}

/** A test consumer makes no calls; a share of it would be missing to live ones. */
function requireNoTestShare(mode: Mode, crmShare: number | null = null): void {
  if (mode === 'live' || crmShare === null) return;
  const message = 'must be null: a test consumer makes no calls to the CRM';
  throw new Problem('invalid_request', `The consumer isn't valid: crmShare ${message}.`, {
    errors: [{ pointer: '#/crmShare', message }],
  });
}

/**
 * Gives a new consumer its share, or revokes it: only of records that are there can two that are raised at the same time be
 * kept apart.
 */
async function giveShare(
  created: CreatedConsumer,
  crmShare: number,
  author: Author,
  options: AdministrationOptions,
): Promise<CreatedConsumer> {
  const { store, clock } = options;
  const { id } = created.consumer;
  return orRevoked(
    async () => {
      const saved = await changing(async () => {
        const { consumer, version } = await findIn(store, id);
        const changed = recordChange(consumer, { ...consumer, crmShare }, author, clock());
        return save(consumer, { consumer: changed, version }, options);
      });
      await applyAndAnnounce(options, saved);
      return { ...created, ...saved };
    },
    created,
    { author, options },
  );
}

async function orRevoked<T>(
  work: () => Promise<T>,
  { consumer }: CreatedConsumer,
  { author, options }: { author: Author; options: AdministrationOptions },
): Promise<T> {
  try {
    return await asProblems(work);
  } catch (error) {
    const revoked = await options.store.revoke(consumer.id, author).catch(() => undefined);
    if (revoked) await applyAndAnnounce(options, revoked);
    throw error;
  }
}

function authorOf(authority: Authority | undefined): Author {
  return authority?.author ?? commandLine();
}

async function applyAndAnnounce(
  { directory, announce, log }: AdministrationOptions,
  { consumer, version }: VersionedConsumer,
): Promise<void> {
  const event = waitingEvents(consumer).at(-1);
  if (event !== undefined) logAuditEvent(log, event);
  directory.put(consumer, version);
  await announce(consumer.id);
}

/** A malformed id names no secret: nothing is read for it. */
async function findIn(store: ConsumerStore, id: string): Promise<VersionedConsumer> {
  return (isConsumerId(id) ? await store.find(id) : undefined) ?? consumerNotFound();
}

async function findOrLoaded(id: string, { store, directory }: AdministrationOptions): Promise<Consumer> {
  try {
    return (await asProblems(() => findIn(store, id))).consumer;
  } catch (error) {
    const loaded = directory.consumer(id);
    if (loaded && error instanceof Problem && error.code === 'secrets_unavailable') return loaded;
    throw error;
  }
}

function previousOf({ credentials }: Consumer, apiKey: string | undefined): Rotation['previous'] {
  const pair = credentials.find((credential) => credential.apiKey === apiKey);
  return pair ? { apiKey: pair.apiKey, expiresAt: pair.expiresAt as string } : null;
}

function changing<T>(work: () => Promise<T>): Promise<T> {
  return asProblems(() => retryOnConflict(work));
}

async function asProblems<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof SecretsUnavailable) throw secretsUnavailable('', cause);
    if (cause instanceof VersionConflict) {
      const detail = 'Other requests are changing this consumer; try again.';
      throw new Problem('conflict', detail, { retryAfter: 1, cause });
    }
    if (cause instanceof BrokenConsumer) {
      const detail = "This consumer's record is broken. Restore it in the secrets manager, or delete it.";
      throw new Problem('conflict', detail, { cause });
    }
    throw cause;
  }
}

const unknownChange = "It's unknown whether the change took effect; read the consumer before you repeat it.";
const unknownCreation =
  "It's unknown whether the consumer was created, and nobody has its secret: look for its name in the list, and revoke it " +
  'there before you repeat this.';

/** Turns errors of a write into problems; it may have been executed although no answer came. */
async function writing<T>(work: () => Promise<T>, unknown = unknownChange): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof SecretsUnavailable)) throw cause;
    throw secretsUnavailable(` ${unknown}`, cause);
  }
}

function secretsUnavailable(more: string, cause: unknown): Problem {
  const detail = `The secrets manager isn't available.${more}`;
  return new Problem('secrets_unavailable', detail, { retryAfter: 5, cause });
}

function consumerNotFound(): never {
  throw new Problem('not_found', "There's no consumer with this id.");
}
