import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { migrate } from '../../src/platform/store/migrate.ts';
import { openPostgres } from '../../src/platform/store/postgres.ts';
import { type Certificates, createCertificates } from '../support/certificates.ts';
import { useDoctor } from '../support/doctor.ts';
import { recordLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';

const { visit } = useDoctor();
const server = await startPostgres({ empty: true });
after(() => server?.stop());

let dataDir: string;
before(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'handoff-doctor-'));
  await writeFile(join(dataDir, 'config.json'), '{}');
});
after(() => rm(dataDir, { recursive: true, maxRetries: 5 }));

describe('handoff doctor, of a PostgreSQL', { skip: !server && 'no PostgreSQL' }, () => {
  const role = `handoff_test_${randomBytes(6).toString('hex')}`;
  const url = server?.url ?? 'postgres://127.0.0.1/none';
  const roleUrl = Object.assign(new URL(url), { username: role, password: 'secret' });
  const administrator = new Client({
    connectionString: url,
    options: '-c default_transaction_read_only=off',
  });

  before(async () => {
    await administrator.connect();
    await administrator.query(`create role ${role} login password 'secret'`);
    await administrator.query('revoke create, usage on schema public from public');
  });
  after(async () => {
    await administrator.query(`drop owned by ${role}; drop role ${role}`);
    await administrator.end();
  });

  const look = async () => (await visit(dataDir, { DATABASE_URL: roleUrl.href })).find('database');
  /** Does what the check says. */
  const grant = async (detail: string) => {
    const statements = detail.split('\n').filter((line) => line.startsWith('GRANT '));
    assert.ok(statements.length > 0, detail);
    await administrator.query(statements.join('\n'));
  };

  test('grants what the user lacks before the first start, after it, and for the next migration', async () => {
    const empty = await look();
    assert.equal(empty.state, 'failed');
    assert.match(empty.detail, /^GRANT USAGE, CREATE ON SCHEMA public TO /m);
    assert.match(empty.detail, /^GRANT CREATE ON DATABASE \w+ TO /m);
    await grant(empty.detail);
    assert.match((await look()).detail, /^PostgreSQL, schema version 0 of /);

    const database = openPostgres({ url, log: recordLog().log });
    await migrate(database);
    await database.close();
    await administrator.query('create table pgboss.version (version integer)');
    const foreign = await look();
    assert.equal(foreign.state, 'failed');
    assert.match(
      foreign.detail,
      /^GRANT SELECT, INSERT, UPDATE, DELETE ON pgboss\.version, public\.allowance_notices, .*public\.schema_migrations, /m,
    );
    assert.match(foreign.detail, /^GRANT USAGE, CREATE ON SCHEMA pgboss TO /m);
    await grant(foreign.detail);
    const mended = await look();
    assert.deepEqual([mended.state, /^PostgreSQL, schema version \d+$/.test(mended.detail)], ['ok', true]);

    await administrator.query('delete from schema_migrations where version = 2');
    const older = await look();
    assert.equal(older.state, 'failed');
    assert.match(older.detail, /^GRANT \w+ TO \w+;$/m);
    await grant(older.detail);
    assert.match((await look()).detail, /the gateway updates it at its next start$/);
  });

  test('says that it takes no writes', async () => {
    const name = new URL(url).pathname.slice(1);
    await administrator.query(`alter database ${name} set default_transaction_read_only = on`);
    const { state, detail } = await look();
    await administrator.query(`alter database ${name} reset default_transaction_read_only`);
    assert.equal(state, 'failed');
    assert.match(detail, /^The server takes no writes: default_transaction_read_only is on\. /);
  });
});

describe('handoff doctor, of a certificate for TLS', () => {
  let certificates: Certificates;
  before(async () => {
    certificates = await createCertificates();
  });
  after(() => certificates.remove());

  const look = async (certFile: string, keyFile: string) =>
    (await visit(dataDir, { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile })).find('TLS');

  test('says when it expires, that it soon will and that it has, and why it is unusable', async () => {
    const authority = await certificates.authority('authority');
    const { certFile, keyFile } = await certificates.issue('server', authority);
    const fresh = await look(certFile, keyFile);
    assert.deepEqual([fresh.state, fresh.detail.slice(0, 13)], ['ok', 'expires on 20']);
    const expired = await certificates.issueEnding('expired', authority, -1);
    assert.match((await look(expired.certFile, expired.keyFile)).detail, /^tls\.certFile expired on 20/);
    const soon = await certificates.issueEnding('soon', authority, 13);
    assert.match((await look(soon.certFile, soon.keyFile)).detail, /^tls\.certFile expires on 20/);
    const missing = await look('/nonexist', '/nonexist');
    assert.equal(missing.state, 'failed');
    assert.match(missing.detail, /^tls\.certFile can't be read: ENOENT/);
    const other = await look(certFile, expired.keyFile);
    assert.match(other.detail, /^tls\.certFile and tls\.keyFile can't be served: /);
  });
});
