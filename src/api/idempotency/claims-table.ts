import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../platform/store/database.ts';
import { orUnavailable } from '../../platform/store/failures.ts';
import { deadlineFromNow, firstFence, type Held, leaseEnd, leasesOf } from '../../platform/store/leases.ts';
import { changeInChunks, interval, preparedAs, searchedAtOnce } from '../../platform/store/statements.ts';
import { expandBody, type PackedAnswer } from './answer-text.ts';
import { type ClaimKey, claimant, type KeyedRequest } from './keyed-request.ts';
import { isLeased } from './leases-table.ts';

export interface ClaimRow extends Held {
  external_id: string;
  entity_tag_before: string | null;
  fence: string;
  continued: boolean;
  created_at: Date;
}

export interface Completion {
  claim: ClaimKey;
  fence: string;
  answer: PackedAnswer;
}

interface KeyColumns {
  consumer_id: string;
  key: string;
}

export interface AbandonedClaim extends KeyColumns, Held {
  fence: string;
  operation: string;
  external_id: string;
  records: string[] | null;
}

export type EarlierClaim = { fingerprint: Uint8Array } & (
  | { completed: false }
  | {
      completed: true;
      response_status: number;
      response_headers: Record<string, string>;
      /** Null where it was erased with a member's data. */
      response_body: string | null;
    }
);

/** Claims that one statement deletes: each may have an answer of hundreds of KiB. */
const deletedAtOnce = 2000;

/** No UUID comes before it. */
const firstKey = '00000000-0000-0000-0000-000000000000';

interface SearchedClaim extends KeyColumns {
  fence: string;
  /** Whether its text contains it; null where the answer is compressed, or there is none. */
  is_named: boolean | null;
  response_compressed: Uint8Array | null;
}

const lease = leasesOf({ table: 'idempotency_claims', row: 'c', key: ['consumer_id', 'key'] });
const isContinued = sql`c.completed_at is null and (c.repeat_until is null or c.repeat_until > now())`;

export class ClaimsTable {
  readonly #database: Database;
  readonly #retention: ReturnType<typeof interval>;

  constructor(database: Database, retentionHours: number) {
    this.#database = database;
    this.#retention = interval(retentionHours * 3600);
  }

  /**
   * One statement decides who owns the claims; undefined means that another request does, or that it is completed. No
   * two requests may have the same consumer and key. Rows are locked in the order of keys, so that replicas that take
   * the same claims at the same time wait for each other in turn.
   */
  async take(requests: readonly KeyedRequest[]): Promise<(ClaimRow | undefined)[]> {
    const column = (value: (request: KeyedRequest) => string | number | null) => requests.map(value);
    const statement = sql<Omit<ClaimRow, keyof Held> & KeyColumns>`
      ${preparedAs('claims.take')}
      insert into idempotency_claims as c
        (consumer_id, key, operation, fingerprint, external_id, overwrites, fence, lease_until, created_at,
          last_attempt_at, repeat_until, record_id, records, actor, actor_verified)
      select consumer_id, key, operation, decode(fingerprint, 'hex'), external_id, overwrites, ${firstFence},
        ${leaseEnd}, now(), now(), now() + make_interval(secs => repeat_seconds),
        coalesce(record_id, external_id), string_to_array(records, ','), actor, proven is not null
      from unnest(${column(({ consumerId }) => consumerId)}::text[], ${column(({ key }) => key)}::uuid[],
        ${column(({ operation }) => operation)}::text[], ${column(hexFingerprint)}::text[],
        ${column(({ externalId }) => externalId)}::uuid[], ${column(({ overwrites }) => overwrites ?? null)}::text[],
        ${column(({ repeatWindowSeconds }) => repeatWindowSeconds ?? null)}::double precision[],
        ${column(({ recordId }) => recordId ?? null)}::uuid[],
        ${column(({ records }) => records?.join() ?? null)}::text[], ${column(({ actor }) => actor ?? null)}::text[],
        ${column(({ isActorProven }) => (isActorProven ? 1 : null))}::integer[])
        as wanted (consumer_id, key, operation, fingerprint, external_id, overwrites, repeat_seconds, record_id, records,
          actor, proven)
      order by consumer_id, key
      on conflict (consumer_id, key) do update set
        ${lease.begin},
        last_attempt_at = excluded.last_attempt_at,
        operation = excluded.operation,
        fingerprint = excluded.fingerprint,
        overwrites = excluded.overwrites,
        repeat_until = excluded.repeat_until,
        external_id = case when ${isContinued} then c.external_id else excluded.external_id end,
        record_id = case when ${isContinued} then c.record_id else excluded.record_id end,
        records = case when ${isContinued} then c.records else excluded.records end,
        actor = case when ${isContinued} then c.actor else excluded.actor end,
        actor_verified = case when ${isContinued} then c.actor_verified else excluded.actor_verified end,
        created_at = case when ${isContinued} then c.created_at else excluded.created_at end,
        entity_tag_before = case when ${isContinued} then c.entity_tag_before end,
        completed_at = null, response_status = null, response_headers = null, response_body = null,
        response_compressed = null
      where c.completed_at <= now() - ${this.#retention}
        or (c.completed_at is null and ${lease.isOver} and (c.fingerprint = excluded.fingerprint
          or encode(excluded.fingerprint || c.fingerprint, 'hex') = any(${requests.flatMap(bothFingerprints)}::text[])))
        or (c.repeat_until <= now() and (c.completed_at is not null or ${lease.isOver}))
      returning consumer_id, key::text, external_id, entity_tag_before, fence::text,
        created_at, created_at <> last_attempt_at as continued`;
    const withDeadline = deadlineFromNow();
    const { rows } = await statement.execute(this.#database.sql);
    const taken = new Map(withDeadline(rows).map((row) => [`${row.consumer_id} ${row.key}`, row]));
    return requests.map((request) => taken.get(identify(request)));
  }

  /** Undefined, too, once a request without a key has no repeats any more. */
  async find({ consumerId, key }: ClaimKey): Promise<EarlierClaim | undefined> {
    const { rows } = await sql<EarlierClaim & { response_compressed: Uint8Array | null }>`
      select fingerprint, completed_at is not null as completed, response_status, response_headers, response_body,
        response_compressed
      from idempotency_claims where consumer_id = ${consumerId} and key = ${key}
        and (repeat_until is null or repeat_until > now())
    `.execute(this.#database.sql);
    if (rows[0] === undefined) return undefined;
    const { response_compressed: compressed, ...claim } = rows[0];
    return claim.completed && compressed ? { ...claim, response_body: await expandBody(compressed) } : claim;
  }

  /** Stores answers; false, and nothing is changed, for an owner that was replaced. */
  async complete(completions: readonly Completion[]): Promise<boolean[]> {
    const column = (value: (completion: Completion) => string | number | null) => completions.map(value);
    const statement = sql<KeyColumns>`
      ${preparedAs('claims.complete')}
      update idempotency_claims c set completed_at = now(), response_status = done.status,
        response_headers = done.headers::jsonb, response_body = done.text,
        response_compressed = decode(done.compressed, 'base64')
      from unnest(${column(({ claim }) => claim.consumerId)}::text[], ${column(({ claim }) => claim.key)}::uuid[],
        ${column(({ fence }) => fence)}::bigint[], ${column(({ answer }) => answer.status)}::smallint[],
        ${column(({ answer }) => JSON.stringify(answer.headers))}::text[],
        ${column(({ answer }) => answer.text)}::text[], ${column(({ answer }) => asBase64(answer))}::text[])
        as done (consumer_id, key, fence, status, headers, text, compressed)
      where c.consumer_id = done.consumer_id and c.key = done.key and c.fence = done.fence and c.completed_at is null
      returning c.consumer_id, c.key::text`;
    const { rows } = await statement.execute(this.#database.sql);
    const stored = new Set(rows.map((row) => `${row.consumer_id} ${row.key}`));
    return completions.map(({ claim }) => stored.has(identify(claim)));
  }

  /**
   * Erases the stored answers that name a member; returns how many. The claims stay completed, so that no repeat is
   * executed. Of the headers only Location stays: an entity tag is a hash of the body.
   */
  async eraseMember(memberId: string): Promise<number> {
    let erased = 0;
    let after: KeyColumns | undefined = { consumer_id: '', key: firstKey };
    while (after !== undefined) {
      const found: SearchedClaim[] = await this.#searchNext(after, memberId);
      const named: SearchedClaim[] = [];
      // One after the other: each may have a MiB of text.
      for (const claim of found) if (await names(claim, memberId)) named.push(claim);
      if (named.length > 0) erased += await this.#eraseAnswers(named);
      after = found.at(-1);
    }
    return erased;
  }

  async #searchNext(after: KeyColumns, memberId: string): Promise<SearchedClaim[]> {
    const { rows } = await sql<SearchedClaim>`
      select consumer_id, key, fence::text, position(${memberId} in lower(response_body)) > 0 as is_named,
        response_compressed
      from idempotency_claims
      where (consumer_id, key) > (${after.consumer_id}, ${after.key}::uuid)
      order by consumer_id, key limit ${searchedAtOnce}`.execute(this.#database.bulk);
    return rows;
  }

  async #eraseAnswers(claims: readonly SearchedClaim[]): Promise<number> {
    const column = (value: (claim: SearchedClaim) => string) => sql`${claims.map(value)}`;
    const { numAffectedRows = 0n } = await sql`
      update idempotency_claims c set response_body = null, response_compressed = null,
        response_headers = jsonb_strip_nulls(jsonb_build_object('location', response_headers -> 'location'))
      from unnest(${column(({ consumer_id }) => consumer_id)}::text[], ${column(({ key }) => key)}::uuid[],
        ${column(({ fence }) => fence)}::bigint[]) as named (consumer_id, key, fence)
      where c.consumer_id = named.consumer_id and c.key = named.key and c.fence = named.fence
        and c.completed_at is not null`.execute(this.#database.bulk);
    return Number(numAffectedRows);
  }

  /** Deletes completed claims that are older than the retention, oldest first; returns how many. */
  deleteExpired(signal?: AbortSignal): Promise<number> {
    const statement = (limit: number) => sql`
      delete from idempotency_claims where (consumer_id, key) in (
        select consumer_id, key from idempotency_claims where completed_at <= now() - ${this.#retention}
        order by completed_at limit ${limit} for update skip locked)`;
    return changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }

  /**
   * Takes unfinished claims whose last attempt is older than the retention, those first that were not taken for longest.
   * The order of times is that of the ledger: an owner that is alive has touched its claim since.
   */
  takeAbandoned(count: number): Promise<AbandonedClaim[]> {
    return lease.takeDue<AbandonedClaim>(this.#database.bulk, {
      where: sql`completed_at is null and last_attempt_at <= now() - ${this.#retention}`,
      orderBy: 'lease_until',
      limit: count,
      returning: sql`c.consumer_id, c.key, c.fence::text, c.operation, c.external_id, c.records`,
    });
  }

  release(claim: ClaimKey, fence: string, isUntouched: boolean): Promise<boolean> {
    const tag = isUntouched ? sql`null` : sql`entity_tag_before`;
    return this.#change(claim, fence, sql`${lease.end}, last_attempt_at = now(), entity_tag_before = ${tag}`);
  }

  async remove({ consumerId, key }: ClaimKey, fence: string): Promise<void> {
    await sql`
      delete from idempotency_claims c
      where consumer_id = ${consumerId} and key = ${key} and ${lease.isOf(fence)} and completed_at is null
    `.execute(this.#database.sql);
  }

  nameRecord(claim: ClaimKey, fence: string, record: string): Promise<boolean> {
    return this.#change(claim, fence, sql`overwrites = ${record}`);
  }

  remember(claim: ClaimKey, fence: string, entityTag: string): Promise<boolean> {
    const isFree = sql`not exists (
      select 1 from record_leases l where l.record = c.overwrites and ${isLeased})`;
    return this.#change(claim, fence, sql`entity_tag_before = ${entityTag}`, isFree);
  }

  async isOwner({ consumerId, key }: ClaimKey, fence: string): Promise<boolean> {
    const { rows } = await sql<{ owned: boolean }>`
      select ${lease.isOf(fence)} and not ${lease.isOver} and completed_at is null as owned
      from idempotency_claims c where consumer_id = ${consumerId} and key = ${key}
    `.execute(this.#database.sql);
    return rows[0]?.owned ?? false;
  }

  async #change(
    { consumerId, key }: ClaimKey,
    fence: string,
    assignments: RawBuilder<unknown>,
    condition: RawBuilder<unknown> = sql`true`,
  ): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update idempotency_claims c set ${assignments}
      where consumer_id = ${consumerId} and key = ${key} and ${lease.isOf(fence)} and completed_at is null
        and ${condition}
    `.execute(this.#database.sql);
    return numAffectedRows === 1n;
  }
}

/**
 * Completes a claim for a plan that outlives its request, in the transaction that ends the plan. The plan has a fence of
 * its own, and its answer is the right one under any owner of the claim. No effect where the claim is completed or gone.
 */
export async function completeForPlan(
  transaction: Database['sql'],
  { consumerId, key, externalId }: ClaimKey & Pick<KeyedRequest, 'externalId'>,
  answer: PackedAnswer,
): Promise<void> {
  // Without a key an equal request is a new try once one was refused: of another record, since this one's plan has ended.
  if (answer.status >= 400)
    await sql`
      delete from idempotency_claims
      where consumer_id = ${consumerId} and key = ${key} and external_id = ${externalId} and completed_at is null
        and repeat_until is not null
    `.execute(transaction);
  await sql`
    update idempotency_claims set completed_at = now(), response_status = ${answer.status},
      response_headers = ${JSON.stringify(answer.headers)}::jsonb, response_body = ${answer.text},
      response_compressed = decode(${asBase64(answer)}::text, 'base64')
    where consumer_id = ${consumerId} and key = ${key} and external_id = ${externalId} and completed_at is null
  `.execute(transaction);
}

/**
 * Forgets the claims of a consumer that are so many days old, with their answers, but for those of requests under way: a repeat of one must not make a
 * second record.
 */
export async function forgetClaims(database: Database, consumerId: string, days: number): Promise<void> {
  const consumers = [consumerId, claimant + consumerId];
  const statement = (limit: number) => sql`
    delete from idempotency_claims where (consumer_id, key) in (
      select consumer_id, key from idempotency_claims c
      where consumer_id = any(${consumers}::text[]) and created_at <= now() - ${interval(days * 86_400)}
        and (completed_at is not null or ${lease.isOver}) limit ${limit})`;
  await changeInChunks(database.bulk, deletedAtOnce, statement);
}

async function names({ is_named, response_compressed }: SearchedClaim, memberId: string): Promise<boolean> {
  if (response_compressed === null) return is_named === true;
  return (await expandBody(response_compressed)).toLowerCase().includes(memberId);
}

export function identify({ consumerId, key }: ClaimKey): string {
  return `${consumerId} ${key}`;
}

/** As text: drivers differ in how they send arrays of bytes. */
function hexFingerprint({ fingerprint }: KeyedRequest): string {
  return fingerprint.toString('hex');
}

function bothFingerprints({ fingerprint, otherFingerprint }: KeyedRequest): string[] {
  return otherFingerprint ? [Buffer.concat([fingerprint, otherFingerprint]).toString('hex')] : [];
}

function asBase64({ compressed }: PackedAnswer): string | null {
  return compressed && compressed.toString('base64');
}

export interface KnownRequest {
  consumer_id: string;
  actor: string | null;
  verified: boolean;
  operation: string;
  created_at: Date;
  is_refused: boolean;
}

/** The newest requests that are about a record, of one of these types, whatever became of them. Throws `store_unavailable`. */
export async function requestsAbout(
  database: Database,
  recordId: string,
  types: readonly string[],
  limit: number,
): Promise<KnownRequest[]> {
  const statement = sql<KnownRequest>`
    select case when starts_with(consumer_id, ${claimant}) then substr(consumer_id, ${claimant.length + 1}) else consumer_id
      end as consumer_id, actor, actor_verified as verified, operation, created_at, coalesce(response_status >= 400, false) as is_refused
    from idempotency_claims
    where record_id = ${recordId} or records && ${types.map((type) => `${type} ${recordId}`)}::text[]
    order by created_at desc limit ${limit}`;
  const { rows } = await orUnavailable(() => statement.execute(database.sql), {
    keeps: 'keeps the requests',
  });
  return rows;
}
