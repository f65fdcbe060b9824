import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually } from '../../../support/eventually.ts';
import {
  createInstallation,
  type GatewayProcess,
  type Installation,
} from '../../../support/gateway-process.ts';
import { type AcceptedHandoff, offerFor } from '../../../support/handoffs.ts';
import { isReplay, type KeyedWrite, KeyedWrites } from '../../../support/keyed-writes.ts';
import { type OwnOrg, startOwnOrg } from '../../../support/own-org.ts';
import { type PostgresDatabase, startPostgres } from '../../../support/postgres.ts';

const postgres = await startPostgres();
after(() => postgres?.stop());

/** The owner of a write dies when the CRM has its record; the record is deleted, and the write goes on. */
describe('a record that was deleted before its write was settled', {
  skip: !postgres && 'no PostgreSQL',
}, () => {
  let ownOrg: OwnOrg;
  let installation: Installation;
  let gateway: GatewayProcess;
  let database: Client;
  let writes: KeyedWrites;
  let headers: Record<string, string>;

  before(async () => {
    ownOrg = await startOwnOrg();
    const { url } = postgres as PostgresDatabase;
    installation = await createInstallation({ DATABASE_URL: url }, ownOrg);
    gateway = await installation.start();
    database = new Client({ connectionString: url });
    await database.connect();
    const { console } = await installation.credentials();
    writes = new KeyedWrites(ownOrg.org, console);
    headers = {
      'x-api-key': console.apiKey,
      'x-api-secret': console.apiSecret,
      'content-type': 'application/json',
    };
  });
  after(async () => {
    await installation?.remove();
    await database?.end();
    await ownOrg?.close();
  });

  /**
   * Kills the gateway when the CRM has done the write and before it has answered; starts another. `isAnswered`: the caller
   * has its answer by then.
   */
  const interrupt = async (send: () => Promise<unknown>, { isAnswered = false } = {}): Promise<void> => {
    const hold = await ownOrg.org.arm({
      match: { operation: 'create' },
      effect: { kind: 'hold', stage: 'after' },
      times: 1,
    });
    const sent = send().catch(() => undefined);
    await hold.hit();
    if (isAnswered) await sent;
    gateway.signal('SIGKILL');
    await gateway.ended;
    await sent;
    await hold.remove();
    gateway = await installation.start();
  };

  const deleteRecord = async (externalId: string, collection = 'quotes'): Promise<void> => {
    const response = await fetch(`${gateway.url}/v1/${collection}/${externalId}`, {
      method: 'DELETE',
      headers: { ...headers, 'idempotency-key': randomUUID() },
    });
    assert.equal(response.status, 204);
  };

  const rowsWritten = async () => (await ownOrg.org.counters())['rowsWritten'];

  const kinds: [string, () => KeyedWrite, string][] = [
    ['creation', () => writes.creation(), 'quotes'],
    ['hand-off', () => writes.handOff(), 'bookings'],
  ];
  for (const [kind, make, collection] of kinds) {
    test(`a repeat of a keyed ${kind} gets its 201, and makes no other`, async () => {
      const write = make();
      await interrupt(() => write.send(gateway.url));
      const [record] = await write.records();
      await deleteRecord(String(record?.['External_Id__c']), collection);
      const rows = await rowsWritten();
      await database.query('update idempotency_claims set lease_until = now() where completed_at is null');
      const answer = await write.send(gateway.url);
      assert.equal(answer.status, 201, answer.text);
      const { id, external_id } = JSON.parse(answer.text) as Record<string, string>;
      assert.ok([id, external_id].includes(String(record?.['External_Id__c'])));
      const again = await write.send(gateway.url);
      assert.equal(isReplay(again), true);
      assert.equal(again.text, answer.text);
      assert.deepEqual(await write.records(), []);
      assert.equal(await rowsWritten(), rows);
    });
  }

  test('an accepted hand-off counts as created, and is not made again', async () => {
    let externalId = '';
    const handOff = async () => {
      const response = await fetch(`${gateway.url}/api/v1/handoff`, {
        method: 'POST',
        headers: { ...headers, prefer: 'respond-async' },
        body: JSON.stringify(offerFor(ownOrg.org.memberId)),
      });
      ({ external_id: externalId } = (await response.json()) as AcceptedHandoff);
    };
    await interrupt(handOff, { isAnswered: true });
    const [record] = await ownOrg.org.records('Quote__c', { External_Id__c: externalId });
    await deleteRecord(externalId);
    const rows = await rowsWritten();
    await database.query("update handoffs set lease_until = now() where status = 'accepted'");
    const handoff = await eventually(async () => {
      const response = await fetch(`${gateway.url}/v1/handoffs/${externalId}`, { headers });
      const found = (await response.json()) as AcceptedHandoff;
      assert.equal(found.status, 'created');
      return found;
    });
    assert.equal(handoff.id, record?.['Id']);
    assert.deepEqual(await ownOrg.org.records('Quote__c', { External_Id__c: externalId }), []);
    assert.equal(await rowsWritten(), rows);
  });
});
