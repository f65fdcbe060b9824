import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Client } from 'pg';
import { openPglite } from '../../src/platform/store/pglite.ts';
import { type DiningPartner, partnerCredentials, startOwnPartner } from './dining-partner.ts';
import { createInstallation, type Installation } from './gateway-process.ts';
import type { Org } from './org.ts';
import { embedded } from './own-database.ts';
import { startOwnOrg } from './own-org.ts';
import { startPostgres } from './postgres.ts';

/** A CRM and a dining partner that outlive the gateways which use them, and a database beside them. */
export interface ReservationHarness {
  org: Org;
  partner: DiningPartner;
  installation: Installation;
  /** On the embedded database, only while no gateway runs. */
  database: ReservationDatabase;
  close(): Promise<void>;
}

/** The reservations as they stand in the database. */
export interface ReservationDatabase {
  /** How many are in each state. */
  states(): Promise<Record<string, number>>;
  /** Lets all leases run out, as time would. */
  endLeases(): Promise<void>;
}

/** Undefined where there is no PostgreSQL. */
export async function openReservationHarness(
  kind: 'PostgreSQL' | 'PGlite',
): Promise<ReservationHarness | undefined> {
  const opened = new AsyncDisposableStack();
  const postgres = kind === 'PostgreSQL' ? await startPostgres() : undefined;
  if (kind === 'PostgreSQL' && !postgres) return undefined;
  if (postgres) opened.defer(() => postgres.stop());
  const ownOrg = await startOwnOrg();
  opened.defer(() => ownOrg.close());
  const own = await startOwnPartner();
  opened.defer(() => own.close());
  const installation = await createInstallation(
    {
      DINING_BASE_URL: own.partner.url,
      DINING_USERNAME: partnerCredentials.username,
      ...(postgres ? { DATABASE_URL: postgres.url } : embedded),
    },
    ownOrg,
  );
  opened.defer(() => installation.remove());
  const secret = join(installation.dataDir, 'secrets/dining/dev/password');
  await mkdir(dirname(secret), { recursive: true, mode: 0o700 });
  await writeFile(secret, partnerCredentials.password, { mode: 0o600 });
  const database = postgres
    ? await openDatabase(postgres.url, opened)
    : embeddedDatabase(join(installation.dataDir, 'database'));
  return {
    org: ownOrg.org,
    partner: own.partner,
    installation,
    database,
    close: () => opened.disposeAsync(),
  };
}

type Query = (text: string) => Promise<unknown[]>;

async function openDatabase(url: string, opened: AsyncDisposableStack): Promise<ReservationDatabase> {
  const client = new Client({ connectionString: url });
  await client.connect();
  opened.defer(() => client.end());
  return reservationDatabase(async (text) => (await client.query(text)).rows);
}

function embeddedDatabase(dir: string): ReservationDatabase {
  return reservationDatabase(async (text) => {
    const database = await openPglite(dir);
    const { rows } = await database.execute(text);
    await database.close();
    return rows;
  });
}

function reservationDatabase(query: Query): ReservationDatabase {
  return {
    states: async () => {
      const rows = await query('select state, count(*)::int as count from reservations group by state');
      return Object.fromEntries(rows.map((row) => Object.values(row as object) as [string, number]));
    },
    endLeases: async () => {
      await query(
        `update reservations set lease_until = now() where lease_until > now();
         update idempotency_claims set lease_until = now() where completed_at is null`,
      );
    },
  };
}
