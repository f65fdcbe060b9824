import { type RawBuilder, sql } from 'kysely';
import type { Caller } from '../../identity/consumers/scopes.ts';
import type { Database } from '../../platform/store/database.ts';
import { isDuplicate } from '../../platform/store/failures.ts';
import { changeInChunks } from '../../platform/store/statements.ts';
import { addEvents, lastSequence } from '../events/event-log.ts';
import { type DisabledReason, type Endpoint, maxEndpoints, viewOfEndpoint } from './endpoint.ts';

const changedAtOnce = 5000;

const version = '(extract(epoch from updated_at) * 1000000)::bigint::text';
const columns =
  sql.raw(`id, consumer_id, url, event_types, scopes, description, enabled, disabled_reason, created_at,
  updated_at, last_success_at, last_failure_at, ${version} as version`);

interface EndpointSettings {
  url: string;
  event_types: readonly string[];
  description: string | null;
}

export interface EndpointPosition {
  created_at: string;
  id: string;
}

/** The endpoints. An id counts only together with the consumer that the endpoint belongs to. */
export class EndpointsTable {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Events from now on are for it. Resolves to why it was not stored, where it was not. */
  async add(
    { id: consumerId, scopes }: Pick<Caller, 'id' | 'scopes'>,
    settings: EndpointSettings,
  ): Promise<Endpoint | 'same url' | 'too many'> {
    const { url, event_types, description } = settings;
    return orSameUrl(() =>
      this.#database.sql.transaction().execute(async (transaction) => {
        // Two at once would both find the last place free.
        await sql`select from delivery_position for update`.execute(transaction);
        const { rows } = await sql<Endpoint>`
          insert into webhook_endpoints (consumer_id, url, url_key, event_types, scopes, description, after_sequence)
          select ${consumerId}, ${url}, ${keyOf(url)}, ${JSON.stringify(event_types)}::jsonb, ${listOf(scopes)}::jsonb,
            ${description}, ${lastSequence}
          where (select count(*) from webhook_endpoints where consumer_id = ${consumerId}) < ${maxEndpoints}
          returning ${columns}`.execute(transaction);
        return rows[0] ?? 'too many';
      }),
    );
  }

  async find(consumerId: string, id: string): Promise<Endpoint | undefined> {
    const { rows } = await sql<Endpoint>`
      select ${columns} from webhook_endpoints where id = ${id} and consumer_id = ${consumerId}`.execute(
      this.#database.sql,
    );
    return rows[0];
  }

  async list(consumerId: string, after: EndpointPosition | undefined, limit: number): Promise<Endpoint[]> {
    const rest = after
      ? sql`and (date_trunc('milliseconds', created_at), id) < (${after.created_at}::timestamptz, ${after.id})`
      : sql``;
    const { rows } = await sql<Endpoint>`
      select ${columns} from webhook_endpoints where consumer_id = ${consumerId} ${rest}
      order by date_trunc('milliseconds', created_at) desc, id desc limit ${limit}`.execute(
      this.#database.sql,
    );
    return rows;
  }

  async idsOf(consumerId: string): Promise<string[]> {
    return (await this.list(consumerId, undefined, maxEndpoints)).map(({ id }) => id);
  }

  /**
   * Where a token changes the URL, the endpoint keeps of its scopes only those of the token. Undefined where there is none, or
   * another version than the one that was seen, if any.
   */
  async change(
    { id: consumerId, scopes }: Pick<Caller, 'id' | 'scopes'>,
    id: string,
    { url, event_types, description }: Partial<EndpointSettings>,
    seen: string | undefined,
  ): Promise<Endpoint | 'same url' | undefined> {
    const given = listOf(scopes);
    const narrowed = sql`case when url_key = ${url && keyOf(url)} then scopes when scopes is null then ${given}::jsonb
      else (select coalesce(jsonb_agg(had order by at), '[]') from jsonb_array_elements_text(scopes)
        with ordinality as all_had (had, at) where ${given}::jsonb ? had) end`;
    return orSameUrl(async () => {
      const { rows } = await sql<Endpoint>`
        update webhook_endpoints set updated_at = greatest(now(), updated_at + interval '1 microsecond')
          ${url === undefined ? sql`` : setUrl(url)}
          ${url === undefined || given === null ? sql`` : sql`, scopes = ${narrowed}`}
          ${event_types ? sql`, event_types = ${JSON.stringify(event_types)}::jsonb` : sql``}
          ${description === undefined ? sql`` : sql`, description = ${description}`}
        where id = ${id} and consumer_id = ${consumerId}
          ${seen === undefined ? sql`` : sql`and ${sql.raw(version)} = ${seen}`} returning ${columns}`.execute(
        this.#database.sql,
      );
      return rows[0];
    });
  }

  async enable(id: string): Promise<void> {
    // A process may have been killed between disabling it and this.
    await this.stopPending(id);
    await sql`
      update webhook_endpoints set enabled = true, disabled_reason = null, failing_since = null, updated_at = now(),
        after_sequence = ${lastSequence}
      where id = ${id} and not enabled`.execute(this.#database.sql);
  }

  /**
   * Stops all that waits for it, and adds an event for its consumer, whom it returns. Undefined where it was disabled, is gone, or
   * has another URL than the one that is named, if any.
   */
  async disable(id: string, reason: DisabledReason, url?: string): Promise<string | undefined> {
    const owner = await this.#database.sql.transaction().execute(async (transaction) => {
      // Deliveries that are being made for it must be there before they are stopped.
      await sql`select from delivery_position for update`.execute(transaction);
      const { rows } = await sql<Endpoint>`
        update webhook_endpoints set enabled = false, disabled_reason = ${reason}, updated_at = now()
        where id = ${id} and enabled ${url === undefined ? sql`` : sql`and url = ${url}`} returning ${columns}`.execute(
        transaction,
      );
      const [endpoint] = rows;
      if (endpoint === undefined) return undefined;
      const event = {
        type: 'webhook_endpoint.disabled',
        resource: { type: 'webhook_endpoint', id },
        occurredAt: endpoint.updated_at.toISOString(),
        data: JSON.stringify(viewOfEndpoint(endpoint)),
        permission: 'webhooks',
        privateTo: endpoint.consumer_id,
      } as const;
      await addEvents(transaction, [event]);
      return endpoint.consumer_id;
    });
    await this.stopPending(id);
    return owner;
  }

  /** Deliveries to an endpoint that is not enabled are no longer sent: they have failed. */
  async stopPending(id: string): Promise<void> {
    const statement = (limit: number) => sql`
      update deliveries set status = 'failed', next_attempt_at = null where id in (
        select id from deliveries where endpoint_id = ${id} and status = 'pending'
          and not exists (select from webhook_endpoints where id = ${id} and enabled)
        limit ${limit})`;
    await changeInChunks(this.#database.bulk, changedAtOnce, statement);
  }

  async noteNewSecret(id: string): Promise<void> {
    await sql`
      update webhook_endpoints set secret_version = secret_version + 1, updated_at = now() where id = ${id}`.execute(
      this.#database.sql,
    );
  }

  /** False where there is none. Its deliveries are deleted with the old ones. */
  async remove(consumerId: string, id: string): Promise<boolean> {
    const { numAffectedRows } = await sql`
      delete from webhook_endpoints where id = ${id} and consumer_id = ${consumerId}`.execute(
      this.#database.sql,
    );
    return numAffectedRows === 1n;
  }
}

/** Failures of one URL say nothing of another. */
function setUrl(url: string): RawBuilder<unknown> {
  const key = keyOf(url);
  return sql`, url = ${url}, url_key = ${key}, failing_since = case when url_key = ${key} then failing_since end`;
}

function listOf(scopes: ReadonlySet<string> | undefined): string | null {
  return scopes === undefined ? null : JSON.stringify([...scopes].sort());
}

/** The one spelling of a URL that two are compared by. What follows # is never sent. */
function keyOf(url: string): string {
  return new URL(url).href.replace(/#.*$/s, '');
}

async function orSameUrl<T>(work: () => Promise<T>): Promise<T | 'same url'> {
  try {
    return await work();
  } catch (error) {
    if (isDuplicate(error)) return 'same url';
    throw error;
  }
}
