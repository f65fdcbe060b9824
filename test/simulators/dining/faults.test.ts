import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import { startOwnPartner } from '../../support/dining-partner.ts';
import { createRequest, post } from './client.ts';

let own: Awaited<ReturnType<typeof startOwnPartner>>;
before(async () => {
  own = await startOwnPartner();
});
after(() => own.close());
beforeEach(() => own.partner.reset());

const create = (request = createRequest()) => post(own.partner.url, 'CreateBooking', request);
const arm = (effect: object, more: object = { times: 1 }) => own.partner.arm({ effect, ...more });
const count = async () => (await own.partner.bookings()).length;

it('answers in place of the call, as often as it is armed for', async () => {
  await arm({ kind: 'error', status: 429, retryAfter: 7 }, { times: 2 });
  await arm({ kind: 'failure', cause: 'PAYMENT_ERROR' });
  await arm({ kind: 'answer', status: 200, body: 'nonsense', contentType: 'text/html' });
  const request = createRequest();
  for (const status of [429, 429]) assert.equal((await create(request)).status, status);
  assert.equal((await create(request)).body.booking_failure.cause, 'PAYMENT_ERROR');
  assert.equal((await create(request)).text, 'nonsense');
  assert.equal(await count(), 0);
  assert.equal((await create(request)).body.booking.status, 'CONFIRMED');
});

it('books, and loses the answer or gives another', async () => {
  await arm({ kind: 'loseAnswer' });
  await assert.rejects(create());
  assert.equal(await count(), 1);
  await arm({ kind: 'error', status: 504, stage: 'after' });
  assert.equal((await create()).status, 504);
  assert.equal(await count(), 2);
});

it('breaks the connection, or never answers, and does nothing', async () => {
  await arm({ kind: 'reset' });
  await assert.rejects(create());
  const hang = await arm({ kind: 'hang' });
  const ended = new AbortController();
  const hanging = fetch(`${own.partner.url}/v3/HealthCheck`, { signal: ended.signal });
  await hang.hit();
  ended.abort();
  await assert.rejects(hanging, { name: 'AbortError' });
  assert.equal(await count(), 0);
});

it('holds calls before and after their work, until they are released', async () => {
  for (const [stage, booked] of [
    ['before', 0],
    ['after', 1],
  ] as const) {
    await own.partner.reset();
    const fault = await arm({ kind: 'hold', stage });
    const held = create();
    await fault.hit();
    assert.equal(await count(), booked);
    await fault.release();
    assert.equal((await held).body.booking.status, 'CONFIRMED');
  }
});

it('strikes only what it is meant for', async () => {
  const [struck, spared] = [createRequest(), createRequest()];
  const { user_id: body } = struck.user_information;
  await arm({ kind: 'error', status: 500 }, { match: { operation: 'CreateBooking', body } });
  await arm({ kind: 'latency', ms: 1 }, {});
  await arm({ kind: 'lateAnswer', ms: 1 }, { match: { operation: 'CreateBooking' } });
  assert.equal((await create(spared)).status, 200);
  assert.equal((await create(struck)).status, 500);
  assert.equal((await post(own.partner.url, 'ListBookings', { user_id: body })).status, 200);
});
