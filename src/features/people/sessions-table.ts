import { sql } from 'kysely';
import type { Consumer } from '../../identity/consumers/consumer.ts';
import type { Claims } from '../../identity/consumers/people.ts';
import type { Database } from '../../platform/store/database.ts';
import { changeInChunks, interval } from '../../platform/store/statements.ts';
import type { SignedInPerson } from './person.ts';

export interface Session {
  subject: string;
  actor: string;
  name: string | null;
  email: string | null;
  claims: Claims;
  consumer_id: string;
  /** Last change of the consumer that it was chosen with, by the clocks that consumers go by: the database has another. */
  chosen_at: Date;
  ends_at: Date;
}

type Chosen = Pick<Consumer, 'id' | 'updatedAt'>;

interface Lifetime {
  issuer: string;
  idleMinutes: number;
  sessionHours: number;
}

/** Sessions of one person at most; of more, the oldest end. */
const maxOfPerson = 20;
const deletedAtOnce = 1000;
/** A use is written once in this many seconds, or in a tenth of the time after which a session that is not used ends. */
const notedSeconds = 30;

/** The table `people_sessions`. Throws what the database does. */
export class SessionsTable {
  readonly #database: Database;
  readonly #lifetime: Lifetime;

  constructor(database: Database, lifetime: Lifetime) {
    this.#database = database;
    this.#lifetime = lifetime;
  }

  get #idle() {
    return interval(this.#lifetime.idleMinutes * 60);
  }

  async add({
    hash,
    subject,
    actor,
    name,
    email,
    claims,
    idToken,
    consumer,
  }: SignedInPerson & { hash: string; idToken: string; consumer: Chosen }): Promise<void> {
    const { issuer, sessionHours } = this.#lifetime;
    await sql`
      with surplus as (
        delete from people_sessions where hash in (
          select hash from people_sessions where issuer = ${issuer} and subject = ${subject}
          order by created_at desc offset ${maxOfPerson - 1}::integer)
      )
      insert into people_sessions (hash, issuer, subject, actor, name, email, claims, id_token, consumer_id, chosen_at,
        expires_at)
      values (${hash}, ${issuer}, ${subject}, ${actor}, ${name}, ${email}, ${JSON.stringify(claims)}::jsonb, ${idToken},
        ${consumer.id}, ${consumer.updatedAt}, now() + ${interval(sessionHours * 3600)})`.execute(
      this.#database.sql,
    );
  }

  /** The session, which is used now; undefined where there is none, or it has ended. */
  async use(hash: string): Promise<Session | undefined> {
    const { issuer, idleMinutes } = this.#lifetime;
    const noted = interval(Math.min(notedSeconds, idleMinutes * 6));
    const { rows } = await sql<Session>`
      with found as (
        select hash, subject, actor, name, email, claims, consumer_id, chosen_at,
          last_used_at < now() - ${noted} as is_due, least(expires_at, now() + ${this.#idle}) as ends_at
        from people_sessions
        where hash = ${hash} and issuer = ${issuer} and expires_at > now() and last_used_at > now() - ${this.#idle}
      ), used as (
        update people_sessions s set last_used_at = now() from found where s.hash = found.hash and found.is_due
      )
      select subject, actor, name, email, claims, consumer_id, chosen_at, ends_at from found`.execute(
      this.#database.sql,
    );
    return rows[0];
  }

  /** False where the session has ended. */
  async choose(hash: string, { id, updatedAt }: Chosen): Promise<boolean> {
    const { numAffectedRows } = await sql`
      update people_sessions set consumer_id = ${id}, chosen_at = ${updatedAt} where hash = ${hash}`.execute(
      this.#database.sql,
    );
    return numAffectedRows === 1n;
  }

  async end(hash: string): Promise<string | undefined> {
    const { issuer } = this.#lifetime;
    const { rows } = await sql<{ id_token: string | null }>`
      delete from people_sessions where hash = ${hash}
      returning case when issuer = ${issuer} then id_token end as id_token`.execute(this.#database.sql);
    return rows[0]?.id_token ?? undefined;
  }

  async deleteEnded(signal?: AbortSignal): Promise<void> {
    const statement = (limit: number) => sql`
      delete from people_sessions where hash in (
        select hash from people_sessions where expires_at <= now() or last_used_at <= now() - ${this.#idle} limit ${limit})`;
    await changeInChunks(this.#database.bulk, deletedAtOnce, statement, signal);
  }
}

/** Ends all sessions of a person, by e-mail address or actor in any case of letters; returns how many. */
export async function forgetSessionsOf(database: Database, email: string): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from people_sessions where lower(email) = lower(${email}) or lower(actor) = lower(${email})`.execute(
    database.sql,
  );
  return Number(numAffectedRows);
}
