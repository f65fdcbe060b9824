import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Request } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { useGateway } from '../../support/gateway.ts';
import { untilHandoff } from '../../support/handoffs.ts';
import { newReservation } from '../../support/reservations.ts';
import { chooseMember, openSignedIn, textOf } from './pages.ts';

const offer = (name: string, amount: string, more: object = {}) => ({
  name,
  source: 'Example Stays',
  details: { hotel: name, checkIn: '2030-05-04', totalPrice: { amount, currency: 'EUR' } },
  ...more,
});

describe('trips in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ COPY_ENABLED: 'true', CHANGES_POLL_SECONDS: '0.2' });

  async function openWith(results: readonly object[], hash = '') {
    const opened = await openSignedIn(browser, gateway, gateway.console, hash);
    const { page } = opened;
    const sent: Request[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/api/v1/handoffs')) sent.push(request);
    });
    await chooseMember(page);
    await page.getByRole('button', { name: 'Load results…' }).click();
    await page.getByLabel('Paste JSON').fill(JSON.stringify(results));
    await page.getByRole('button', { name: 'Use results' }).click();
    await page
      .getByRole('article')
      .nth(results.length - 1)
      .waitFor();
    return { ...opened, sent };
  }

  test('several results become quotes in one request, and stand on the page of their trip', async () => {
    const { page, close, sent } = await openWith([
      offer('Hôtel du Parc', '1204.55'),
      offer('Casa Azul', '95.5'),
      offer('Left out', '1.00'),
    ]);
    await page.getByRole('checkbox', { name: 'Select Hôtel du Parc' }).check();
    await page.getByRole('checkbox', { name: 'Select Casa Azul' }).check();
    await page.getByRole('button', { name: 'Hand off 2 as quotes' }).click();
    await textOf(page.getByRole('status'), /Hôtel du Parc.*quote created.*Casa Azul.*quote created/s);
    assert.equal(sent.length, 1);
    const tripId = await page.getByRole('textbox', { name: 'Trip ID' }).inputValue();
    const made = await gateway.org.records('Quote__c', { Trip_Id__c: tripId });
    assert.deepEqual(made.map((one) => one['Name__c']).sort(), ['Casa Azul', 'Hôtel du Parc']);
    await page.getByRole('link', { name: 'Show the trip' }).click();
    await page.getByRole('heading', { level: 1, name: /'s trip$/ }).waitFor();
    const rows = page.getByRole('region', { name: 'Trip items' }).getByRole('row');
    await textOf(rows, /Hôtel du Parc.*Quote.*1,204\.55 EUR/s);
    await textOf(rows, /Casa Azul.*95\.50 EUR/s);
    await textOf(page.getByRole('region', { name: 'Overview' }), /Quotes1,300\.05 EUR/);
    await textOf(page.getByRole('region', { name: 'History' }), /Casa Azul.*(handed it off|Created in)/s);
    // The digits that were sent.
    await page.getByTitle('1204.55 EUR').first().waitFor();
    await close();
  });

  test('while the CRM is down, several results are accepted, and made later', async (t) => {
    const { page, close, sent } = await openWith([offer('Casa Uno', '1.00'), offer('Casa Dos', '2.00')]);
    await page.route('**/api/v1/handoffs/check', (route) => route.fulfill({ status: 503 }));
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    t.after(() => gateway.org.disarm());
    await page.getByRole('checkbox', { name: 'Select Casa Uno' }).check();
    await page.getByRole('checkbox', { name: 'Select Casa Dos' }).check();
    await page.getByRole('button', { name: 'Hand off 2 as quotes' }).click();
    const outcome = page.getByRole('status').filter({ hasText: 'Casa Uno' });
    await textOf(outcome, /quote accepted.*quote accepted.*we'll create it as soon as it does/s);
    assert.equal(sent[0]?.headers()['prefer'], 'respond-async, wait=5');
    await gateway.org.disarm();
    await textOf(outcome, /Casa Uno.*quote created.*Casa Dos.*quote created/s);
    await close();
  });

  test('what the CRM refuses of several results says why, and can be handed off again', async (t) => {
    const { page, close } = await openWith([offer('Casa Uno', '1.00'), offer('Casa Dos', '2.00')]);
    await gateway.org.arm({
      match: { object: 'Quote__c', method: 'POST' },
      effect: { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'Not now' },
      times: 1,
    });
    t.after(() => gateway.org.disarm());
    await page.getByRole('checkbox', { name: 'Select Casa Uno' }).check();
    await page.getByRole('checkbox', { name: 'Select Casa Dos' }).check();
    await page.getByRole('button', { name: 'Hand off 2 as quotes' }).click();
    const outcome = page.getByRole('status').getByRole('listitem');
    await textOf(outcome, /quote failed.*Not now/);
    await textOf(outcome, /quote created/);
    assert.equal(await page.getByRole('button', { name: 'Hand off as quote' }).count(), 1);
    assert.equal(await page.getByRole('button', { name: 'Hand off again…' }).count(), 1);
    await close();
  });

  test('a duplicate that a check finds stands at its card, and is handed off once somebody goes on', async () => {
    const tripId = randomUUID();
    const plain = offer('Plain', '20.00');
    const body = { type: 'booking', trip_id: tripId, member_id: gateway.org.memberId, result: plain };
    assert.equal((await gateway.request('/api/v1/handoff', { body })).status, 201);
    await eventually(async () => {
      const checked = await gateway.request('/api/v1/handoff/check', { body });
      assert.match(await checked.text(), /possible_duplicate/);
    });
    const soon = offer('Soon', '10.00', { valid_until: new Date(Date.now() + 300_000).toISOString() });
    const { page, close, sent } = await openWith([soon, plain], `#/hand-off?trip_id=${tripId}`);
    assert.equal(await page.getByRole('textbox', { name: 'Trip ID' }).inputValue(), tripId);
    const cards = page.getByRole('article');
    await cards
      .first()
      .getByText(/The offer ends in \d min/)
      .waitFor();
    // That it ends soon stops nobody.
    await page.getByRole('checkbox', { name: 'Select Soon' }).check();
    await page.getByRole('button', { name: 'Hand off 1 as booking' }).click();
    await textOf(page.getByRole('status'), /Soon.*booking created/s);
    assert.equal(sent.length, 1);
    await page.getByRole('checkbox', { name: 'Select Plain' }).check();
    await page.getByRole('button', { name: 'Hand off 1 as booking' }).click();
    await cards.last().getByText('The trip already has a booking with this name').waitFor();
    assert.equal(sent.length, 1);
    await page.getByRole('button', { name: 'Hand off anyway' }).click();
    await textOf(page.getByRole('status'), /Plain.*booking created/s);
    assert.equal(sent.length, 2);
    await close();
  });

  test('what would be refused cannot be handed off until it is deselected', async () => {
    const { page, close, sent } = await openWith([
      offer('Without a supplier', '1.00', { source: '' }),
      offer('Fine', '2.00'),
    ]);
    await page.getByRole('checkbox', { name: 'Select Without a supplier' }).check();
    await page.getByRole('checkbox', { name: 'Select Fine' }).check();
    await page.getByRole('button', { name: 'Hand off 2 as quotes' }).click();
    await page.getByText('Nothing was handed off. Fix what the check found').waitFor();
    await page
      .getByRole('article')
      .filter({ hasText: 'Without a supplier' })
      .locator('.notice.bad')
      .waitFor();
    assert.ok(await page.getByRole('button', { name: 'Hand off 2 as quotes' }).isDisabled());
    await page.getByRole('checkbox', { name: 'Select Without a supplier' }).uncheck();
    await page.getByRole('button', { name: 'Hand off 1 as quote' }).click();
    await textOf(page.getByRole('status'), /Fine.*quote created/s);
    assert.equal(sent.length, 1);
    await close();
  });

  test('an update that failed is told at the record that it was for', async () => {
    const trip = { trip_id: randomUUID(), member_id: gateway.org.memberId };
    const handOff = (name: string, headers: Record<string, string> = {}) => {
      const body = { type: 'quote', ...trip, result: offer(name, '10.00'), reference: 'offer-1' };
      const update = headers['prefer'] !== undefined && { on_repeat: 'update' };
      return gateway.request('/api/v1/handoff', { body: { ...body, ...update }, headers });
    };
    assert.equal((await handOff('Casa Before')).status, 201);
    await gateway.org.arm({
      match: { object: 'Quote__c' },
      effect: { kind: 'recordError', errorCode: 'FIELD_CUSTOM_VALIDATION_EXCEPTION', message: 'Not now' },
    });
    const accepted = await handOff('Casa After', { prefer: 'respond-async' });
    assert.equal(accepted.status, 202);
    const { external_id: id } = (await accepted.json()) as { external_id: string };
    await untilHandoff(gateway, id, ({ status }) => status === 'failed');
    await gateway.org.disarm();
    const { page, close } = await openSignedIn(browser, gateway, gateway.console, `#/trips/${trip.trip_id}`);
    const row = page
      .getByRole('region', { name: 'Trip items' })
      .getByRole('row')
      .filter({ hasText: 'Casa Before' });
    await textOf(row, /update failed/);
    await row.getByRole('link').last().click();
    await textOf(page.getByRole('region', { name: 'Progress' }), /Failed.*Not now/s);
    await close();
  });

  test('a table is one row with its booking, by the clock of the restaurant, and its history goes back in time', async () => {
    const body = newReservation(gateway.org.memberId);
    const headers = { 'idempotency-key': randomUUID() };
    const made = await gateway.request('/v1/reservations', { body, headers });
    assert.equal(made.status, 201);
    const { start_at } = body['dining'] as { start_at: string };
    const clock = new Date(start_at).toLocaleTimeString('en-GB', {
      ...{ timeZone: 'Europe/Madrid', timeStyle: 'short' },
    });
    const { page, close } = await openSignedIn(
      browser,
      gateway,
      gateway.console,
      `#/trips/${body['trip_id'] as string}`,
    );
    const rows = page.getByRole('region', { name: 'Trip items' }).getByRole('row');
    await textOf(rows, new RegExp(`table.*, ${clock} Madrid time.*Reservation.*dining`, 's'));
    assert.equal(await rows.filter({ hasText: 'Casa Olivo' }).count(), 1);
    const history = page.getByRole('region', { name: 'History' });
    await textOf(history, /Table and booking confirmed.*Booking the table.*asked to reserve the table/s);
    await close();
  });

  test('a trip that nobody may see says so', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.console, `#/trips/${randomUUID()}`);
    await page.getByText('Nothing has been handed off for this trip yet').waitFor();
    await close();
  });
});
