import { modeOf } from '../../platform/base/call.ts';
import { Problem } from '../../platform/base/problem.ts';
import { retryOnConflict, type SecretsManager } from '../../platform/secrets/secrets-manager.ts';
import type { Consumer } from './consumer.ts';
import type { ConsumerStore } from './consumer-store.ts';
import { isConsumerId, makeConsumerId } from './credentials.ts';
import type { ConsumerDirectory } from './directory.ts';
import { BrokenConsumer } from './stored-consumer.ts';

/*
 * A test consumer that an operator has made, and all that it and those have made, are a family. Their limits add up, so a family has
 * a limit: its members stand in one secret, which a creation writes before it makes the consumer. Two at once cannot both
 * take the last place, on whichever replica.
 */

/** Consumers of a family that are not revoked, beside the first, at most. */
const mostMade = 50;
const mostAncestors = mostMade;

/** For this long, in milliseconds, a place is not given to others although its consumer is not there: it may be about to be. */
const heldMs = 60_000;

interface Member {
  id: string;
  /** RFC 3339. */
  at: string;
}

export interface FamilyPlace {
  id: string;
  ancestors: string[];
}

interface FamilyOptions {
  secrets: Pick<SecretsManager, 'read' | 'write' | 'delete'>;
  store: Pick<ConsumerStore, 'find'>;
  directory: Pick<ConsumerDirectory, 'consumer'>;
  /** Milliseconds since 1970. */
  clock: () => number;
}

/** Whether the caller sees and manages the consumer. A test consumer does so with itself and its descendants only. */
export function isManagedBy(
  caller: Pick<Consumer, 'id'>,
  { id, ancestors = [] }: Pick<Consumer, 'id' | 'ancestors'>,
): boolean {
  return modeOf(caller.id) === 'live' || id === caller.id || ancestors.includes(caller.id);
}

export function idsManagedBy(
  caller: Pick<Consumer, 'id'>,
  directory: Pick<ConsumerDirectory, 'newestFirst'>,
): string[] | undefined {
  if (modeOf(caller.id) === 'live') return undefined;
  return directory.newestFirst().flatMap((one) => (isManagedBy(caller, one) ? [one.id] : []));
}

/** Takes a place for a consumer that the caller makes. Throws `Problem` conflict where the family is full, `SecretsUnavailable`. */
export async function takePlace(
  { id: maker, ancestors: above = [] }: Consumer,
  options: FamilyOptions,
): Promise<FamilyPlace> {
  const line = [maker, ...above];
  const ancestors = [...line.slice(0, -1).slice(0, mostAncestors - 1), ...line.slice(-1)];
  const place = { id: makeConsumerId('test'), ancestors };
  await changeMembers(place, options, async (members) => {
    const living = members.length < mostMade ? members : await livingOf(members, options);
    if (living.length >= mostMade) throw familyFull();
    return [...living, { id: place.id, at: new Date(options.clock()).toISOString() }];
  });
  return place;
}

/**
 * Throws `Problem` conflict where another creation has taken the place, because the consumer was not there yet: it is to be
 * revoked then.
 */
export async function confirmPlace(place: FamilyPlace, { secrets }: FamilyOptions): Promise<void> {
  const found = await secrets.read(nameOf(place));
  if (!parse(found?.value).some(({ id }) => id === place.id)) throw familyFull();
}

export async function leavePlace(place: FamilyPlace, options: FamilyOptions): Promise<void> {
  await changeMembers(place, options, async (members) => members.filter(({ id }) => id !== place.id));
}

async function changeMembers(
  place: FamilyPlace,
  { secrets }: FamilyOptions,
  change: (members: Member[]) => Promise<Member[]>,
): Promise<void> {
  const name = nameOf(place);
  await retryOnConflict(async () => {
    const found = await secrets.read(name);
    const before = parse(found?.value);
    const members = await change(before);
    const value = members.map(({ id, at }) => `${id} ${at}\n`).join('');
    if (value !== '') await secrets.write(name, value, found?.version ?? null);
    else if (found !== undefined) await secrets.delete(name, found.version);
  });
}

async function livingOf(
  members: readonly Member[],
  { store, directory, clock }: FamilyOptions,
): Promise<Member[]> {
  const isThere = async ({ id, at }: Member) =>
    Date.parse(at) > clock() - heldMs ||
    directory.consumer(id) !== undefined ||
    (await store.find(id).then((found) => found !== undefined, isBroken));
  const there = await Promise.all(members.map(isThere));
  return members.filter((_, n) => there[n]);
}

function isBroken(error: unknown): boolean {
  if (error instanceof BrokenConsumer) return true;
  throw error;
}

function nameOf({ ancestors }: FamilyPlace): string {
  return `test-families/${ancestors.at(-1)}`;
}

function parse(value = ''): Member[] {
  return value.split('\n').flatMap((line) => {
    const [id = '', at = ''] = line.split(' ');
    return isConsumerId(id) ? [{ id, at }] : [];
  });
}

function familyFull(): Problem {
  return new Problem(
    'conflict',
    `A test consumer, with all that its consumers created, can have at most ${mostMade} consumers that aren't revoked. Revoke some first.`,
  );
}
