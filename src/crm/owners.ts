import { type Call, isAlone, remainingMs, withChanges } from '../platform/base/call.ts';
import { now } from '../platform/base/chance.ts';
import { forgetOldest } from '../platform/base/forget-oldest.ts';
import { inTime } from '../platform/base/waiting.ts';
import type { Log } from '../platform/observability/log.ts';
import type { Metrics } from '../platform/observability/metrics.ts';
import { listOf, type Resources } from '../records/mapping.ts';
import type { OwnerRule, Resource } from '../records/resource.ts';
import { readTogether } from './batching/composite.ts';
import { queryPath, readPage, toPart } from './batching/find.ts';
import { type CrmError, CrmFailure } from './failure.ts';
import type { CrmRow } from './mapping/records.ts';
import { failureOf } from './rest/errors.ts';
import { type CrmAnswer, isSuccess } from './rest/request.ts';
import type { CrmClient } from './rest/rest-client.ts';
import { queueQuery, type RowsQuery, toSoql, userQuery } from './soql/query.ts';

/*
 * Who owns a new record: the user whose field says who acts, else the queue or user of the mapping, else the integration user. Ids
 * of users and queues are known here only, and shown nowhere.
 */

const rememberedMs = 3_600_000;
const unknownMs = 60_000;
const mostRemembered = 20_000;
/** Look-ups of others: after one that failed, the first of those who joined it looks for all; after two, each for itself. */
const mostJoined = 2;

interface Wanted {
  by: OwnerRule['match'] | 'queue';
  name: string;
}

interface OwnersOptions {
  client: Pick<CrmClient, 'send' | 'dataPath'>;
  ownerVerifiedOnly: boolean;
  log: Log;
  metrics: Pick<Metrics, 'crmOwnerFallbacks'>;
}

export class Owners {
  readonly #options: OwnersOptions;
  /** Ids by what names them, each with the time of `now()` until which it counts; null: there is none. */
  readonly #known = new Map<string, { id: string | null; until: number }>();
  readonly #refused = new Map<string, number>();
  readonly #looking = new Map<string, Promise<void>>();

  constructor(options: OwnersOptions) {
    this.#options = options;
  }

  /** Who is to own a new record. Throws `CrmFailure` where owners cannot be looked up for now. */
  async choose(resource: Resource, call: Call): Promise<OwnerChoice> {
    const owners = await this.of(resource, call);
    return new OwnerChoice(this, resource, owners);
  }

  mayOwn(resource: Resource, ownerId: string): boolean {
    return now() >= (this.#refused.get(refusalKey(resource, ownerId)) ?? 0);
  }

  noteRefusal(resource: Resource, ownerId: string): void {
    this.#refused.set(refusalKey(resource, ownerId), now() + rememberedMs);
    forgetOldest(this.#refused, mostRemembered);
  }

  forgetRefusal(resource: Resource, ownerId: string): void {
    this.#refused.delete(refusalKey(resource, ownerId));
  }

  countFallback(): void {
    this.#options.metrics.crmOwnerFallbacks.inc();
  }

  async of({ owner }: Pick<Resource, 'owner'>, call: Call): Promise<string[]> {
    if (owner === undefined) return [];
    const wanted = wantedBy(owner, this.#options.ownerVerifiedOnly && !call.subject ? undefined : call.actor);
    await this.#lookUp(
      wanted.filter((one) => !this.#isKnown(one)),
      call,
    );
    return [...new Set(wanted.flatMap((one) => this.#known.get(keyOf(one))?.id ?? []))];
  }

  #isKnown(one: Wanted): boolean {
    return now() < (this.#known.get(keyOf(one))?.until ?? 0);
  }

  /** `joined`: look-ups of others that failed, perhaps for reasons of their own, or took too long. */
  async #lookUp(wanted: readonly Wanted[], call: Call, joined: readonly Promise<void>[] = []): Promise<void> {
    if (wanted.length === 0) return;
    const key = wanted.map(keyOf).join(' ');
    const mayJoin = joined.length < mostJoined && !isAlone(call);
    const others = mayJoin ? this.#looking.get(key) : undefined;
    if (others === undefined || joined.includes(others)) await this.#look(key, wanted, call);
    else if (!(await endsWell(others, call))) await this.#lookUp(wanted, call, [...joined, others]);
  }

  async #look(key: string, wanted: readonly Wanted[], call: Call): Promise<void> {
    const looking = withChanges(call, { isWrite: true }, (own) => this.#ask(wanted, own));
    if (!isAlone(call)) this.#looking.set(key, looking);
    try {
      await looking;
    } finally {
      if (this.#looking.get(key) === looking) this.#looking.delete(key);
    }
  }

  async #ask(wanted: readonly Wanted[], call: Call): Promise<void> {
    const { client, log } = this.#options;
    const parts = wanted.map((one) => toPart(client.dataPath, queryFor(one)));
    const answers = await readTogether(client, parts, { operation: 'query' }, call);
    for (const [index, one] of wanted.entries()) {
      const answer = answers[index] as CrmAnswer;
      const isRead = isSuccess(answer);
      if (!isRead)
        log.warn(
          { by: one.by, err: failureOf(answer, { effect: 'read' }) },
          "can't look up the owner of records; see handoff org check",
        );
      const id = isRead ? ownerIn(answer, one, client.dataPath) : null;
      this.#known.delete(keyOf(one));
      this.#known.set(keyOf(one), { id, until: now() + (isRead ? rememberedMs : unknownMs) });
    }
    forgetOldest(this.#known, mostRemembered);
  }
}

export class OwnerChoice {
  readonly resource: Resource;
  readonly #known: Owners;
  readonly #owners: readonly string[];
  #left: string[] = [];

  constructor(known: Owners, resource: Resource, owners: readonly string[]) {
    this.resource = resource;
    this.#known = known;
    this.#owners = owners;
    this.#restart();
  }

  /** Undefined: the integration user. */
  get ownerId(): string | undefined {
    return this.#left[0];
  }

  accept(): void {
    if (this.ownerId !== this.#owners[0]) this.#known.countFallback();
  }

  reject(error: unknown): boolean {
    const { ownerId } = this;
    if (ownerId !== undefined && !isOwnerRefusal(error)) return false;
    if (ownerId === undefined) {
      // A reference that does not exist has the same code.
      for (const owner of this.#owners) this.#known.forgetRefusal(this.resource, owner);
      this.#restart();
      return false;
    }
    this.#known.noteRefusal(this.resource, ownerId);
    this.#left = this.#left.slice(1).filter((owner) => this.#known.mayOwn(this.resource, owner));
    return true;
  }

  #restart(): void {
    this.#left = this.#owners.filter((owner) => this.#known.mayOwn(this.resource, owner));
  }
}

function wantedBy({ match, else: other }: OwnerRule, actor: string | undefined): Wanted[] {
  const wanted: Wanted[] = actor === undefined ? [] : [{ by: match, name: actor }];
  if (other !== undefined)
    wanted.push('queue' in other ? { by: 'queue', name: other.queue } : { by: 'Username', name: other.user });
  return wanted;
}

function keyOf({ by, name }: Wanted): string {
  return `${by} ${fold(by, name)}`;
}

/** A FederationIdentifier has cases of letters (Object Reference, User). */
function fold(by: Wanted['by'], name: string): string {
  return by === 'FederationIdentifier' ? name : name.toLowerCase();
}

/** Returns false also after half of the caller's own time: the rest is for a look-up of its own. */
async function endsWell(looking: Promise<void>, call: Call): Promise<boolean> {
  try {
    await inTime(looking, remainingMs(call) / 2, () => new Error('it takes too long'));
    return true;
  } catch {
    return false;
  }
}

function refusalKey({ crmObject }: Resource, ownerId: string): string {
  return `${crmObject} ${ownerId}`;
}

function queryFor({ by, name }: Wanted): RowsQuery {
  return by === 'queue' ? queueQuery(name) : userQuery(by, name);
}

/** Null where the name is of nobody, or of several. */
function ownerIn(answer: CrmAnswer, { by, name }: Wanted, dataPath: string): string | null {
  const column = by === 'queue' ? 'DeveloperName' : by;
  const found = readPage(answer, dataPath).rows.filter(
    (row) => fold(by, String(row[column])) === fold(by, name),
  );
  const [row, ...others] = found;
  return row === undefined || others.length > 0 ? null : String(row['Id']);
}

const ownerCodes = [
  'INACTIVE_OWNER_OR_USER',
  'OP_WITH_INVALID_USER_TYPE_EXCEPTION',
  'TRANSFER_REQUIRES_READ',
];

/** Whether the org may have refused a record for its owner: an id that it does not name is perhaps that of another. */
function isOwnerRefusal(error: unknown): boolean {
  // The first refusal of several writes is the cause.
  const failure = error instanceof CrmFailure ? error : (error as { cause?: unknown } | undefined)?.cause;
  if (!(failure instanceof CrmFailure)) return false;
  const { errors = [], error: first } = failure.facts;
  return [...errors, ...(first ? [first] : [])].some(isOfOwner);
}

function isOfOwner({ code, fields, message }: CrmError): boolean {
  if (ownerCodes.includes(code) || fields.some((name) => name.toLowerCase() === 'ownerid')) return true;
  return code === 'INVALID_CROSS_REFERENCE_KEY' && (fields.length === 0 || /\bowner/i.test(message));
}

const refusals = ['setup', 'rejected', 'broken'];

type Client = Pick<CrmClient, 'send' | 'dataPath'>;

/** Why owners of records cannot be looked up, sentences without their end. */
export async function ownerFaults(resources: Resources, client: Client, call: Call): Promise<string[]> {
  const faults: string[] = [];
  const read = async (query: RowsQuery, fault: string) => {
    const rows = await rowsOf(query, client, call);
    if (rows === undefined) faults.push(fault);
    return rows?.length;
  };
  for (const { match, else: other } of rulesOf(resources)) {
    const user = 'user' in (other ?? {}) ? (other as { user: string }).user : undefined;
    await read(
      userQuery(match, 'nobody'),
      `Can't read User.${match}. Give the integration user read access to User, so that records get owners`,
    );
    if (user !== undefined && (await read(userQuery('Username', user), "Can't read User.Username")) === 0)
      faults.push(`The mapping names ${user} as an owner, but there is no such active user`);
    if (other === undefined || !('queue' in other)) continue;
    const { queue } = other;
    const found = await read(
      queueQuery(queue),
      `Can't read Group, so the gateway can't find the queue ${queue}`,
    );
    if (found === 0)
      faults.push(`The mapping names the queue ${queue} as an owner, but there is no such queue`);
  }
  return faults;
}

async function rowsOf(query: RowsQuery, client: Client, call: Call): Promise<readonly CrmRow[] | undefined> {
  const path = queryPath(client.dataPath, toSoql(query));
  try {
    const answer = await client.send({ operation: 'query', effect: 'read', method: 'GET', path }, call);
    return readPage(answer, client.dataPath).rows;
  } catch (error) {
    // An error that is answered to a caller names its cause.
    const { cause } = error as Error;
    if (!(cause instanceof CrmFailure && refusals.includes(cause.kind))) throw error;
    return undefined;
  }
}

function rulesOf(resources: Resources): OwnerRule[] {
  const rules = listOf(resources).flatMap(({ owner }) => owner ?? []);
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}
