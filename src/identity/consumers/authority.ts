import { modeOf } from '../../platform/base/call.ts';
import { randomUUID } from '../../platform/base/chance.ts';
import { Problem } from '../../platform/base/problem.ts';
import type { Author } from '../audit/audit-event.ts';
import { invalidCredentials } from './authentication.ts';
import { type Bounds, requireWithin, unbounded } from './ceiling.ts';
import { allows, type Consumer, isActive, isExpired, type PermissionAction } from './consumer.ts';
import type { ConsumerStore, VersionedConsumer } from './consumer-store.ts';
import type { ConsumerDirectory } from './directory.ts';
import { requireOneOf } from './permissions.ts';
import { withinScopes } from './scopes.ts';
import { BrokenConsumer, undefinedIfBroken } from './stored-consumer.ts';
import { isManagedBy } from './test-families.ts';

function isAdministrator(consumer: Consumer): boolean {
  const { id, enabled = true, validUntil = null } = consumer;
  const isLasting = enabled && validUntil === null;
  return isLasting && modeOf(id) === 'live' && allows(consumer, 'consumers', 'write');
}

interface OtherAdministrators {
  store: Pick<ConsumerStore, 'find' | 'save'>;
  directory: Pick<ConsumerDirectory, 'newestFirst' | 'refresh'>;
}

/**
 * Makes sure that there is another administrator than the one of that id, whose record was read before and is about to be
 * changed or deleted. It writes a mark to the other one's record: a request that takes that one's rights at the same time, on
 * whichever replica, has read its record before, fails to write over the mark, and starts again. Throws `Problem`
 * conflict where there is no other, `VersionConflict`, `SecretsUnavailable`.
 */
async function holdAnotherAdministrator(id: string, options: OtherAdministrators): Promise<void> {
  if (await markOne(id, options)) return;
  // Another replica may have made one a moment ago.
  await options.directory.refresh();
  if (await markOne(id, options)) return;
  throw new Problem(
    'conflict',
    "This is the last enabled consumer with consumers:write and without validUntil, so it can't be changed like this. The " +
      'command line can.',
  );
}

async function markOne(id: string, { store, directory }: OtherAdministrators): Promise<boolean> {
  const others = directory.newestFirst().filter((other) => other.id !== id && isAdministrator(other));
  for (const other of others) {
    const found = await store.find(other.id).catch(undefinedIfBroken);
    if (found === undefined || !isAdministrator(found.consumer)) continue;
    await store.save({ ...found.consumer, administratorMark: randomUUID() }, found.version);
    return true;
  }
  return false;
}

/** Authority for a change by the API, checked against the record just before it is written; the command line has none. */
export interface Authority {
  callerId: string;
  author: Author;
  scopes?: ReadonlySet<string> | undefined;
  isPerson?: boolean;
  isOwnRotation?: boolean;
  /** Key of the pair that the caller uses; undefined where it uses a token. */
  apiKey?: string | undefined;
  precondition?: (consumer: Consumer) => void;
}

interface AuthorityOptions extends OtherAdministrators {
  /** Milliseconds since 1970. */
  clock: () => number;
}

/** Throws `Problem` permission_denied where the caller, as it is now, may not create this consumer. */
export async function checkCreation(
  authority: Authority,
  wanted: Bounds,
  options: AuthorityOptions,
): Promise<Consumer> {
  const caller = await currentCaller(authority, 'write', options);
  requireWithin(caller, wanted);
  return caller;
}

/**
 * Throws `Problem` not_found for a consumer that the caller does not see, permission_denied for what exceeds the caller,
 * conflict for what would leave no administrator, and what the precondition does. `after`: null where the consumer is deleted.
 */
export async function checkAuthority(
  authority: Authority,
  before: Consumer,
  after: Consumer | null,
  options: AuthorityOptions,
): Promise<void> {
  if (authority.isOwnRotation) return checkOwnRotation(authority, before, options);
  const action = after === null ? 'delete' : 'write';
  const caller = await currentCaller(authority, action, options, before);
  requireManaged(caller, before);
  requireWithin(caller, before);
  if (after !== null) requireWithin(caller, after);
  authority.precondition?.(before);
  const endsAdministrator = isAdministrator(before) && !(after && isAdministrator(after));
  if (endsAdministrator) await holdAnotherAdministrator(before.id, options);
}

/**
 * Only the active pair rotates: a token would become a pair that outlives it, and a pair that leaked before a rotation would
 * end the one that replaced it.
 */
function checkOwnRotation({ apiKey, isPerson }: Authority, own: Consumer, { clock }: AuthorityOptions): void {
  const now = clock();
  const pair = own.credentials.find((one) => one.apiKey === apiKey);
  // Another rotation may have ended the pair since it was checked.
  const isGone = apiKey !== undefined && (pair === undefined || isExpired(pair, now));
  if (!isActive(own, now) || isGone) throw invalidCredentials();
  requireNotRotated(own, apiKey);
  if (pair !== undefined) return;
  throw cannotRotate(`${isPerson ? "A person's session" : 'An access token'} can't rotate keys.`);
}

/** Throws `permission_denied` where this pair, with which a consumer wants to rotate its own, was rotated already. */
export function requireNotRotated({ credentials }: Consumer, apiKey: string | undefined): void {
  const isRotated = credentials.some((one) => one.apiKey === apiKey && one.state !== 'active');
  if (isRotated) throw cannotRotate('These keys were already rotated.');
}

function cannotRotate(reason: string): Problem {
  return new Problem('permission_denied', `${reason} Rotate with the active API key and secret.`);
}

/**
 * The version of the record that may be deleted; undefined for a broken one, which may have had anything. Throws as
 * above.
 */
export async function checkRevocation(
  authority: Authority,
  find: () => Promise<VersionedConsumer>,
  options: AuthorityOptions,
): Promise<string | undefined> {
  try {
    const { consumer, version } = await find();
    await checkAuthority(authority, consumer, null, options);
    return version;
  } catch (error) {
    if (!(error instanceof BrokenConsumer) || authority.precondition) throw error;
    // Whose test consumer it was stood in the record.
    if (modeOf(authority.callerId) === 'test') throw notManaged();
    requireWithin(await currentCaller(authority, 'delete', options), unbounded);
    return undefined;
  }
}

/** Throws `Problem` not_found for a consumer that does not exist for the caller. */
export function requireManaged(caller: Consumer, consumer: Parameters<typeof isManagedBy>[1]): void {
  if (!isManagedBy(caller, consumer)) throw notManaged();
}

function notManaged(): Problem {
  return new Problem('not_found', "There's no consumer with this id.");
}

/**
 * The caller as the secrets manager has it now. The consumer that authenticated the request may be a second old on this
 * replica: a caller whose permissions were reduced could undo that. Throws `Problem` invalid_credentials, and
 * permission_denied if it may no longer manage consumers.
 */
async function currentCaller(
  { callerId: id, scopes }: Authority,
  action: PermissionAction,
  { store, clock }: AuthorityOptions,
  target?: Consumer,
): Promise<Consumer> {
  // A change of itself is checked against the record that it replaces.
  const found = target?.id === id ? target : (await store.find(id))?.consumer;
  if (found === undefined || !isActive(found, clock())) throw invalidCredentials();
  const caller = scopes ? withinScopes(found, scopes) : found;
  requireOneOf(caller, [{ resource: 'consumers', action }]);
  return caller;
}
