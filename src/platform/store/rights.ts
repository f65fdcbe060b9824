import type { Database } from './database.ts';
import { tablesOfMigrations } from './migrate.ts';

/** Tables of the job queue (schema `pgboss`) without its partitions for days, and ours, wherever the search path finds them. */
const tables = `
  tables as (
    select c.oid, c.relowner, n.nspname, c.relname, format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p')
      and (n.nspname = 'pgboss' and c.relname !~ '_[0-9]{8}$' or c.oid in (select to_regclass(ours) from unnest($1::text[]) ours)))`;

/** Rights that the service uses at every start and with each table. */
const missingGrants = `
  with ${tables},
  lacking as (
    select name, string_agg(needed, ', ' order by place) as needed
    from tables, unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) with ordinality as each (needed, place)
    where not has_table_privilege(oid, needed)
    group by name)
  select format('GRANT USAGE, CREATE ON SCHEMA %I TO %I;', nspname, current_user) as statement
  from pg_namespace
  where nspname in ('pgboss', coalesce(current_schema(), 'public'))
    and not (has_schema_privilege(oid, 'USAGE') and has_schema_privilege(oid, 'CREATE'))
  union all
  select format('GRANT CREATE ON DATABASE %I TO %I;', current_database(), current_user)
  where not has_database_privilege(current_database(), 'CREATE')
    and not exists (select from tables where name = 'pgboss.version')
  union all
  select format('GRANT %s ON %s TO %I;', needed, string_agg(name, ', ' order by name), current_user)
  from lacking group by needed`;

/** Tables are altered by their owner, and by those who are members of it. */
const missingOwners = `
  with ${tables}
  select distinct format('GRANT %I TO %I;', pg_get_userbyid(relowner), current_user) as statement
  from tables where nspname <> 'pgboss' and not pg_has_role(relowner, 'USAGE')`;

/** Throws, with what an administrator can do, where the database takes no writes or its user lacks a right. */
export async function checkRights(database: Database): Promise<void> {
  const { rows } = await database.execute(
    "select current_setting('transaction_read_only') = 'on' as refuses, pg_is_in_recovery() as standby",
  );
  const { refuses, standby } = rows[0] as { refuses: boolean; standby: boolean };
  if (refuses)
    throw new Error(
      standby
        ? "The server takes no writes, because it's a standby. Set databaseUrl to the primary."
        : 'The server takes no writes: default_transaction_read_only is on. Ask its administrator why, or turn it off.',
    );
  await refuse(database, missingGrants);
}

/** Throws, with what an administrator can do, where the user may not alter the tables that are there. */
export async function checkMayMigrate(database: Database): Promise<void> {
  await refuse(database, missingOwners);
}

async function refuse(database: Database, query: string): Promise<void> {
  const { rows } = await database.execute(query, [tablesOfMigrations()]);
  if (rows.length === 0) return;
  const statements = (rows as { statement: string }[]).map(({ statement }) => statement);
  throw new Error(
    `The database's user lacks rights that the gateway needs. An administrator can grant them:\n${statements.join('\n')}`,
  );
}
