import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { CommandLine } from '../../support/command-line.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { usePostgres } from '../../support/postgres.ts';
import { newReservation } from '../../support/reservations.ts';

const postgres = await usePostgres();

describe('handoff reservation list', { skip: !postgres && 'no PostgreSQL' }, () => {
  let gateway: TestGateway;
  const commands = new CommandLine();
  after(() => commands.stop());

  before(async () => {
    gateway = await startGateway({ DATABASE_URL: postgres?.url });
  });
  after(() => gateway.stop());

  const list = (...args: string[]) => {
    const env = { DATA_DIR: gateway.dataDir, DATABASE_URL: postgres?.url };
    const config = join(gateway.dataDir, 'config.json');
    return commands.run(['--config', config, 'reservation', 'list', ...args], { env });
  };
  const make = async () => {
    const response = await gateway.request('/v1/reservations', {
      body: newReservation(gateway.org.memberId),
      headers: { 'idempotency-key': randomUUID() },
    });
    return (await response.json()) as { id: string; dining: { booking_id: string } };
  };

  test('names those that need attention, and why, beside a running service', async () => {
    assert.match((await list()).stdout, /No reservations found/);
    const whole = await make();
    const refusal = { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'no' };
    const rule = await gateway.org.arm({
      match: { object: 'Booking__c', operation: 'update' },
      effect: refusal,
    });
    const stuck = await make();
    await rule.remove();

    const { stdout, stderr } = await list('--status', 'needs_attention', '--json');
    assert.equal(stderr, '');
    const [listed, ...others] = JSON.parse(stdout);
    assert.equal(others.length, 0);
    assert.partialDeepStrictEqual(listed, {
      id: stuck.id,
      status: 'needs_attention',
      state: 'writing_outcome',
      partner: 'dining',
      booking_id: stuck.dining.booking_id,
    });
    assert.match(listed.attention, /The table is booked, and the CRM booking can't be written: /);

    const all = await list();
    for (const { id } of [whole, stuck]) assert.ok(all.stdout.includes(id));
    assert.ok(all.stdout.includes(listed.attention));
    assert.ok(!all.stdout.includes('ines@example.com'));
  });

  test('a status that does not exist is refused by name', async () => {
    const { code, stderr } = await list('--status', 'lost');
    assert.equal(code, 2);
    assert.match(stderr, /"lost" isn't one of pending, confirmed/);
  });
});
