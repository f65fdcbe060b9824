import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import type { ReservationView } from '../../../../src/features/reservations/view.ts';
import { slotInDays } from '../../../support/dining-partner.ts';
import { useGateway } from '../../../support/gateway.ts';
import { embedded } from '../../../support/own-database.ts';
import { startPostgres } from '../../../support/postgres.ts';
import { assertProblem } from '../../../support/problems.ts';
import { newReservation } from '../../../support/reservations.ts';

const path = '/v1/reservations';

interface Page {
  data: ReservationView[];
  next_cursor: string | null;
  has_more: boolean;
}

for (const kind of ['PGlite', 'PostgreSQL']) {
  const postgres = kind === 'PostgreSQL' ? await startPostgres() : undefined;
  const skip = kind === 'PostgreSQL' && !postgres;
  describe(`the list of reservations, on ${kind}`, { skip }, () => {
    const gateway = useGateway(postgres ? { DATABASE_URL: postgres.url } : embedded);
    /** The oldest first; the last one is cancelled. */
    const made: ReservationView[] = [];

    before(async () => {
      for (let i = 0; i < 5; i += 1) made.push(await make());
      const cancelled = await gateway.request(`${path}/${made[4]?.id}`, {
        method: 'DELETE',
        headers: { 'idempotency-key': randomUUID() },
      });
      assert.equal(cancelled.status, 204);
      const refused = newReservation(gateway.org.memberId, { service_id: 'none' });
      await assertProblem(await send(refused), 422, 'partner_rejected');
    });
    after(async () => {
      await postgres?.stop();
    });

    const send = (body: object) =>
      gateway.request(path, { body, headers: { 'idempotency-key': randomUUID() } });
    const make = async () => {
      const response = await send(newReservation(gateway.org.memberId));
      assert.equal(response.status, 201);
      return (await response.json()) as ReservationView;
    };
    const list = async (query = '') => {
      const response = await gateway.request(`${path}${query}`);
      assert.equal(response.status, 200, await response.clone().text());
      return (await response.json()) as Page;
    };
    const ids = ({ data }: Page) => data.map(({ id }) => id);

    test('has the newest first, as they were made, and none that was refused', async () => {
      const { data, ...rest } = await list();
      assert.deepEqual(rest, { next_cursor: null, has_more: false });
      assert.deepEqual(data.slice(1), made.slice(0, 4).toReversed());
      assert.deepEqual([data[0]?.id, data[0]?.status], [made[4]?.id, 'cancelled']);
    });

    test('goes page by page, with nothing missed or twice', async () => {
      const seen: string[] = [];
      let cursor: string | null = null;
      do {
        const page: Page = await list(`?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`);
        seen.push(...ids(page));
        cursor = page.next_cursor;
        // One that is made meanwhile is not on the pages after it.
        if (seen.length === 2) await make();
      } while (cursor !== null);
      assert.deepEqual(seen, made.map(({ id }) => id).toReversed());
    });

    test('is of one trip, member or status', async () => {
      const [first] = made;
      assert.deepEqual(ids(await list(`?trip_id=${first?.trip_id.toUpperCase()}`)), [first?.id]);
      assert.equal((await list(`?member_id=${gateway.org.memberId}&status=confirmed`)).data.length, 5);
      assert.deepEqual(ids(await list('?status=cancelled')), [made[4]?.id]);
      assert.deepEqual(ids(await list(`?member_id=${randomUUID()}`)), []);
    });

    test('refuses cursors of other filters, and parameters that it does not know', async () => {
      const { next_cursor } = await list('?limit=1');
      const other = await gateway.request(`${path}?limit=1&status=confirmed&cursor=${next_cursor}`);
      await assertProblem(other, 400, 'invalid_cursor', 'cursor');
      for (const name of ['status', 'name', 'limit', 'trip_id']) {
        await assertProblem(await gateway.request(`${path}?${name}=0`), 400, 'invalid_request', name);
      }
    });
  });
}

describe('availability of a table', () => {
  const gateway = useGateway();

  const query = (change: Record<string, string> = {}) =>
    new URLSearchParams({
      merchant_id: 'casa-olivo-7',
      service_id: 'table',
      start_at: slotInDays(20),
      party_size: '4',
      ...change,
    }).toString();
  const ask = (change?: Record<string, string>) => gateway.request(`${path}/availability?${query(change)}`);
  const answer = async (change?: Record<string, string>) => {
    const response = await ask(change);
    assert.equal(response.status, 200, await response.clone().text());
    return response.json();
  };
  /** So many minutes after 19:00, which is when `slotInDays` is. */
  const later = (minutes: number) => new Date(Date.parse(slotInDays(20)) + minutes * 60_000).toISOString();

  test('is shown, and where there is none, times near it', async () => {
    assert.deepEqual(await answer(), { available: true, alternatives: [] });
    await gateway.diningPartner.set({ seats: 4 });
    const response = await gateway.request(path, {
      body: newReservation(gateway.org.memberId, { start_at: slotInDays(20), duration_minutes: 30 }),
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.equal(response.status, 201);
    // A table of 90 minutes from 18:00 or 18:30 on would still be there at 19:00.
    const alternatives = [later(30), later(60), later(-90), later(90)];
    assert.deepEqual(await answer(), { available: false, alternatives });
    await gateway.diningPartner.set({ seats: 100 });
  });

  test('of what the partner never offers is none, and times that it offers are still named', async () => {
    assert.deepEqual(await answer({ start_at: later(5) }), {
      available: false,
      alternatives: [later(0), later(30), later(-30), later(60), later(-60), later(90)],
    });
    // The last table is at 23:00.
    assert.deepEqual(await answer({ start_at: later(270) }), {
      available: false,
      alternatives: [later(240), later(210), later(180)],
    });
  });

  test('is a problem where the partner does not answer, or about other slots', async () => {
    await gateway.diningPartner.set({ quirks: ['echoesOtherStart'] });
    await assertProblem(await ask(), 502, 'partner_error');
    await gateway.diningPartner.set({ quirks: [] });
    await gateway.diningPartner.arm({ effect: { kind: 'error', status: 503 }, times: 2 });
    await assertProblem(await ask(), 503, 'partner_unavailable');
  });

  test('needs a merchant, a service, a time and a number of guests', async () => {
    await assertProblem(await ask({ party_size: '0' }), 400, 'invalid_request', 'party_size');
    await assertProblem(await ask({ party_size: 'four' }), 400, 'invalid_request', 'party_size');
    await assertProblem(await ask({ start_at: '2026-13-01T00:00:00Z' }), 400, 'invalid_request', 'start_at');
    await assertProblem(await ask({ x: '1' }), 400, 'invalid_request', 'x');
    const all = ['merchant_id', 'service_id', 'start_at', 'party_size'];
    await assertProblem(await gateway.request(`${path}/availability`), 400, 'invalid_request', ...all);
  });
});
