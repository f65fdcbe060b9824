import { type Kysely, sql } from 'kysely';
import type { Database, Tables } from '../store/database.ts';

/** How long an owner may be silent: longer than a request lives, so that only dead owners are replaced. */
export const leaseSeconds = 30;
export interface KeyedRequest {
  consumerId: string;
  key: string;
  /** Name of the operation, for whoever clears up after it. */
  operation: string;
  fingerprint: Buffer;
  /** External ID to store if the claim is new. */
  externalId: string;
}

/** An answer as it leaves the service: what a repeat gets again. */
export interface StoredAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A claim that was just taken. */
export interface ClaimRow {
  external_id: string;
  entity_tag_before: string | null;
  fence: string;
  continued: boolean;
}

/** The answer of an owner to its claim. */
export interface Completion {
  claim: Pick<KeyedRequest, 'consumerId' | 'key'>;
  fence: string;
  answer: StoredAnswer;
}

interface Identity {
  consumer_id: string;
  key: string;
}

/** A claim that somebody else has, or that is completed. */
export type EarlierClaim = { fingerprint: Uint8Array } & (
  | { completed: false }
  | {
      completed: true;
      response_status: number;
      response_headers: Record<string, string>;
      response_body: string;
    }
);

/**
 * Above every fence that the key had in an earlier life of its row, which was deleted: else an owner from then that
 * wakes up would pass for the owner of now.
 */
const firstFence = sql.raw('(extract(epoch from now()) * 1000000)::bigint');

/** The SQL of the ledger; each move of a claim is one statement, and the database's clock decides. */
export class ClaimsTable {
  readonly #db: Database['sql'];
  readonly #retention: ReturnType<typeof interval>;

  constructor(database: Database, retentionHours: number) {
    this.#db = database.sql;
    this.#retention = interval(retentionHours * 3600);
  }

  /**
   * One statement decides who owns the claims; undefined means that somebody else does, or that it is completed. No
   * two requests may have the same consumer and key. Rows are locked in the order of keys, so that replicas that take
   * the same claims at the same time wait for each other in turn.
   */
  async take(requests: readonly KeyedRequest[]): Promise<(ClaimRow | undefined)[]> {
    const column = (value: (request: KeyedRequest) => string) => requests.map(value);
    const { rows } = await sql<ClaimRow & Identity>`/* claims.take */
      insert into idempotency_claims as c
        (consumer_id, key, operation, fingerprint, external_id, fence, lease_until, created_at, last_attempt_at)
      select consumer_id, key, operation, decode(fingerprint, 'hex'), external_id, ${firstFence},
        now() + ${interval(leaseSeconds)}, now(), now()
      from unnest(${column(({ consumerId }) => consumerId)}::text[], ${column(({ key }) => key)}::uuid[],
        ${column(({ operation }) => operation)}::text[], ${column(hexFingerprint)}::text[],
        ${column(({ externalId }) => externalId)}::uuid[])
        as wanted (consumer_id, key, operation, fingerprint, external_id)
      order by consumer_id, key
      on conflict (consumer_id, key) do update set
        fence = c.fence + 1,
        lease_until = excluded.lease_until,
        last_attempt_at = excluded.last_attempt_at,
        operation = excluded.operation,
        fingerprint = excluded.fingerprint,
        external_id = case when c.completed_at is null then c.external_id else excluded.external_id end,
        created_at = case when c.completed_at is null then c.created_at else excluded.created_at end,
        entity_tag_before = case when c.completed_at is null then c.entity_tag_before end,
        completed_at = null, response_status = null, response_headers = null, response_body = null
      where c.completed_at <= now() - ${this.#retention}
        or (c.completed_at is null and c.lease_until <= now() and c.fingerprint = excluded.fingerprint)
      returning consumer_id, key::text, external_id, entity_tag_before, fence::text,
        created_at <> last_attempt_at as continued
    `.execute(this.#db);
    const taken = new Map(rows.map((row) => [`${row.consumer_id} ${row.key}`, row]));
    return requests.map((request) => taken.get(identify(request)));
  }

  async find({ consumerId, key }: KeyedRequest): Promise<EarlierClaim | undefined> {
    const { rows } = await sql<EarlierClaim>`
      select fingerprint, completed_at is not null as completed, response_status, response_headers, response_body
      from idempotency_claims where consumer_id = ${consumerId} and key = ${key}
    `.execute(this.#db);
    return rows[0];
  }

  /** Stores answers; false, and nothing is changed, for an owner that was replaced. */
  async complete(completions: readonly Completion[]): Promise<boolean[]> {
    const column = (value: (completion: Completion) => string | number) => completions.map(value);
    const { rows } = await sql<Identity>`/* claims.complete */
      update idempotency_claims c set completed_at = now(), response_status = done.status,
        response_headers = done.headers::jsonb, response_body = done.body
      from unnest(${column(({ claim }) => claim.consumerId)}::text[], ${column(({ claim }) => claim.key)}::uuid[],
        ${column(({ fence }) => fence)}::bigint[], ${column(({ answer }) => answer.status)}::smallint[],
        ${column(({ answer }) => JSON.stringify(answer.headers))}::text[],
        ${column(({ answer }) => answer.body)}::text[]) as done (consumer_id, key, fence, status, headers, body)
      where c.consumer_id = done.consumer_id and c.key = done.key and c.fence = done.fence and c.completed_at is null
      returning c.consumer_id, c.key::text
    `.execute(this.#db);
    const stored = new Set(rows.map((row) => `${row.consumer_id} ${row.key}`));
    return completions.map(({ claim }) => stored.has(identify(claim)));
  }

  /** Gives the claim back: a repeat may take it at once. */
  release(request: KeyedRequest, fence: string): Promise<boolean> {
    return this.#change(request, fence, sql`lease_until = now(), last_attempt_at = now()`);
  }

  /** Frees the key, if the claim is unfinished and this is still its fence. */
  async remove({ consumerId, key }: Completion['claim'], fence: string): Promise<void> {
    await sql`
      delete from idempotency_claims
      where consumer_id = ${consumerId} and key = ${key} and fence = ${fence}::bigint and completed_at is null
    `.execute(this.#db);
  }

  remember(request: KeyedRequest, fence: string, entityTag: string): Promise<boolean> {
    return this.#change(request, fence, sql`entity_tag_before = ${entityTag}`);
  }

  async isOwner({ consumerId, key }: KeyedRequest, fence: string): Promise<boolean> {
    const { rows } = await sql<{ owned: boolean }>`
      select fence = ${fence}::bigint and lease_until > now() and completed_at is null as owned
      from idempotency_claims where consumer_id = ${consumerId} and key = ${key}
    `.execute(this.#db);
    return rows[0]?.owned ?? false;
  }

  /** Changes an unfinished claim while its fence is still this one; tells whether it was. */
  async #change(
    { consumerId, key }: KeyedRequest,
    fence: string,
    assignments: ReturnType<typeof interval>,
  ): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update idempotency_claims set ${assignments}
      where consumer_id = ${consumerId} and key = ${key} and fence = ${fence}::bigint and completed_at is null
    `.execute(this.#db);
    return numAffectedRows === 1n;
  }
}

/**
 * Completes a claim for a plan that outlives its request, in the transaction that ends the plan. The plan has a fence of
 * its own: whoever owns the claim by now, this is the answer. Without effect where the claim is completed or gone.
 */
export async function completeForPlan(
  transaction: Kysely<Tables>,
  { consumerId, key, externalId }: Pick<KeyedRequest, 'consumerId' | 'key' | 'externalId'>,
  { status, headers, body }: StoredAnswer,
): Promise<void> {
  await sql`
    update idempotency_claims set completed_at = now(), response_status = ${status},
      response_headers = ${JSON.stringify(headers)}::jsonb, response_body = ${body}
    where consumer_id = ${consumerId} and key = ${key} and external_id = ${externalId} and completed_at is null
  `.execute(transaction);
}

/** What one claim is known by; keys are in lower case. */
export function identify({ consumerId, key }: Pick<KeyedRequest, 'consumerId' | 'key'>): string {
  return `${consumerId} ${key}`;
}

/** As text: drivers differ in how they send arrays of bytes. */
function hexFingerprint({ fingerprint }: KeyedRequest): string {
  return fingerprint.toString('hex');
}

/** A duration in SQL. */
export function interval(seconds: number) {
  return sql`make_interval(secs => ${seconds}::double precision)`;
}
