import { sql } from 'kysely';
import type { Described, DescribedObject } from '../../crm/describe.ts';
import type { Database } from '../../platform/store/database.ts';
import { interval } from '../../platform/store/statements.ts';

const keptSeconds = 30 * 86_400;

export class DescribedObjectsTable {
  readonly #database: Database;
  readonly #org: string;

  constructor(database: Database, org: string) {
    this.#database = database;
    this.#org = org;
  }

  /** When the last look at the objects began; undefined where they never were. */
  async described(): Promise<{ at: string; secondsAgo: number } | undefined> {
    const { rows } = await sql<{ at: string | null; ago: number }>`
      select max(described_at)::text as at,
        extract(epoch from clock_timestamp() - max(described_at))::double precision as ago
      from described_objects where org = ${this.#org}`.execute(this.#database.sql);
    const [{ at, ago } = { at: null, ago: 0 }] = rows;
    return at === null ? undefined : { at, secondsAgo: ago };
  }

  async read(): Promise<Described> {
    const { rows } = await sql<{ object: string; description: string | null }>`
      select object, description from described_objects where org = ${this.#org}`.execute(this.#database.sql);
    return new Map(
      rows.map(({ object, description }) => [
        object,
        description === null ? null : (JSON.parse(description) as DescribedObject),
      ]),
    );
  }

  /** The database's time, from before a look: `store` takes it. */
  async time(): Promise<string> {
    const { rows } = await sql<{ at: string }>`select clock_timestamp()::text as at`.execute(
      this.#database.sql,
    );
    return (rows[0] as { at: string }).at;
  }

  /** Changes nothing where a look that began later is stored: it knows more, though it may have ended earlier. */
  async store(described: Described, at: string): Promise<void> {
    const entries = [...described];
    await sql`
      with old as (
        delete from described_objects where described_at < now() - ${interval(keptSeconds)} and org <> ${this.#org}
      )
      insert into described_objects (org, object, description, described_at)
      select ${this.#org}, object, description, ${at}::timestamptz
      from unnest(${entries.map(([object]) => object)}::text[],
        ${entries.map(([, found]) => found && JSON.stringify(found))}::text[]) as found (object, description)
      on conflict (org, object) do update
        set description = excluded.description, described_at = excluded.described_at
        where described_objects.described_at < excluded.described_at`.execute(this.#database.sql);
  }
}
