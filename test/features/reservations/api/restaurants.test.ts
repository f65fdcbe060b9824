import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { slotInDays } from '../../../support/dining-partner.ts';
import { type TestGateway, useGateway } from '../../../support/gateway.ts';
import { callTool } from '../../../support/mcp.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

const olivo = {
  merchant_id: 'casa-olivo-7',
  name: 'Casa Olivo',
  time_zone: 'Europe/Madrid',
  services: [{ service_id: 'table', name: 'Table' }],
};

interface Page {
  data: { merchant_id: string; name: string }[];
  next_cursor: string | null;
  has_more: boolean;
}

const listFrom = async (gateway: TestGateway, query = ''): Promise<Page> => {
  const response = await gateway.request(`/v1/dining/merchants${query}`);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Page;
};
const reserve = (gateway: TestGateway) =>
  gateway.request('/v1/reservations', {
    body: newReservation(gateway.org.memberId),
    headers: { 'idempotency-key': randomUUID() },
  });
const ask = (gateway: TestGateway, change: Record<string, string>) => {
  const usual = {
    merchant_id: 'casa-olivo-7',
    service_id: 'table',
    start_at: slotInDays(20),
    party_size: '4',
  };
  const query = new URLSearchParams({ ...usual, ...change });
  return gateway.request(`/v1/reservations/availability?${query.toString()}`);
};

describe('restaurants of the simulated partner', () => {
  const gateway = useGateway();

  test('are listed, also by a tool, and in the world of a test consumer', async () => {
    assert.deepEqual(await listFrom(gateway), { data: [olivo], next_cursor: null, has_more: false });
    for (const q of ['OLIVO', 'olivo-7', 'Tab'])
      assert.equal((await listFrom(gateway, `?q=${q}`)).data.length, 1, q);
    assert.deepEqual((await listFrom(gateway, '?q=nori')).data, []);
    const { structuredContent } = await callTool(gateway.url, gateway.console, 'list_restaurants', {});
    assert.deepEqual(structuredContent['data'], [olivo]);
    const permissions = [{ resource: 'bookings', actions: ['read'] }];
    const made = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: 'restaurants in a test world', mode: 'test', permissions },
    });
    const tester = (await made.json()) as typeof gateway.console;
    const response = await gateway.request('/v1/dining/merchants', { as: tester });
    assert.deepEqual(((await response.json()) as Page).data, [olivo]);
  });

  test('that are not there have no tables: nobody is asked, and nothing is made', async () => {
    const lookups = await gateway.diningPartner.calls('BatchAvailabilityLookup');
    for (const unknown of [{ merchant_id: 'nowhere' }, { service_id: 'breakfast' }]) {
      await assertProblem(await ask(gateway, unknown), 404, 'not_found');
      const key = randomUUID();
      const body = newReservation(gateway.org.memberId, unknown);
      for (const again of [false, true]) {
        const response = await gateway.request('/v1/reservations', {
          body,
          headers: { 'idempotency-key': key },
        });
        assert.equal(response.headers.get('idempotent-replayed') === 'true', again);
        const problem = (await response.json()) as Record<string, unknown>;
        assert.deepEqual(
          [response.status, problem['code'], problem['cause']],
          [422, 'partner_rejected', 'UNKNOWN_SERVICE'],
        );
      }
      assert.deepEqual(await gateway.org.records('Booking__c', { Trip_Id__c: String(body['trip_id']) }), []);
    }
    assert.equal(await gateway.diningPartner.calls('BatchAvailabilityLookup'), lookups);
  });
});

describe('restaurants of the settings', () => {
  const merchants = [
    ...['Nori', 'casa Olivo', 'Amaro'].map((name, index) => ({ ...olivo, name, merchant_id: `m-${index}` })),
    { ...olivo, name: 'Nori', merchant_id: 'a-1', time_zone: 'Asia/Tokyo' },
    { ...olivo, name: 'Zum Ölberg', merchant_id: 'casa-olivo-8' },
  ];
  const gateway = useGateway({ DINING_MERCHANTS: JSON.stringify([...merchants, olivo]) });

  test('are paged by name', async () => {
    const ids: string[] = [];
    let query = '?limit=2';
    for (;;) {
      const page = await listFrom(gateway, query);
      ids.push(...page.data.map(({ merchant_id }) => merchant_id));
      if (page.next_cursor === null) break;
      query = `?limit=2&cursor=${page.next_cursor}`;
    }
    assert.deepEqual(ids, ['m-2', 'casa-olivo-7', 'm-1', 'a-1', 'm-0', 'casa-olivo-8']);
    const other = await listFrom(gateway, '?limit=1&q=nori');
    await assertProblem(
      await gateway.request(`/v1/dining/merchants?cursor=${other.next_cursor}`),
      400,
      'invalid_cursor',
      'cursor',
    );
  });

  test('take telephone numbers as members have them', async () => {
    const guest = { given_name: 'Amara', family_name: 'Okafor', email: 'amara@example.com' };
    for (const [phone, status] of [
      ['+1 202 555 0100', 201],
      ['+1 (202) 555-0100', 201],
      ['+34.952.555.010', 201],
      ['202 555 0100', 400],
      ['+1 202 555 0100 x5', 400],
      ['+1   2025550100', 400],
      ['+1 202', 400],
    ] as const) {
      const response = await gateway.request('/v1/reservations', {
        body: newReservation(gateway.org.memberId, { guest: { ...guest, phone } }),
        headers: { 'idempotency-key': randomUUID() },
      });
      assert.equal(response.status, status, `${phone} ${await response.clone().text()}`);
    }
  });

  test('give a reservation its time zone', async () => {
    const response = await reserve(gateway);
    assert.equal(response.status, 201, await response.clone().text());
    const { dining } = (await response.json()) as { dining: { time_zone: string } };
    assert.equal(dining.time_zone, 'Europe/Madrid');
  });
});
