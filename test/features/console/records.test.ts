import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { FeedReader } from '../../support/feed.ts';
import { type RequestOptions, useGateway } from '../../support/gateway.ts';
import { newReservation } from '../../support/reservations.ts';
import { goTo, openSignedIn, signIn, textOf } from './pages.ts';

const actor = { 'x-actor': 'ana@example.com' };

describe('records in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '0.2', CHANGES_MINIMUM_SECONDS: '0.1' });
  const member = { id: randomUUID(), name: 'Nadia Quirke' };
  before(async () => {
    await gateway.org.insert('Contact', [
      {
        ...{ External_Id__c: member.id, FirstName: 'Nadia', LastName: 'Quirke' },
        ...{ Email: 'nadia.quirke@example.com', Phone: '+1 202 555 0199' },
      },
    ]);
  });

  const open = (as: Parameters<typeof signIn>[1] = gateway.console, hash = '') =>
    openSignedIn(browser, gateway, as, hash);
  const send = async (path: string, options: RequestOptions) => {
    const headers = { 'idempotency-key': randomUUID(), ...actor };
    const response = await gateway.request(path, { headers, ...options });
    assert.ok(response.ok, await response.clone().text());
    return response.status === 204 ? {} : ((await response.json()) as Record<string, string>);
  };
  const details = {
    board: 'half board',
    net: 612.4,
    room: { type: 'double', beds: [{ size: 'queen' }, { size: 'single' }] },
    extras: ['Parking', 'Transfer'],
    starts: '2027-04-12T15:00:00+02:00',
    last_day: '2027-02-30',
  };
  /** A body with a number that JSON.parse would round. */
  const makeQuote = async (name: string, rest: object = {}) => {
    const body = { trip_id: randomUUID(), member_id: member.id, name, source: 'hotelbeds', details, ...rest };
    const text = JSON.stringify(body).replace('612.4', '12345678901234567890.10');
    return (await send('/v1/quotes', { body: text })) as { id: string; trip_id: string };
  };
  const history = (page: Page) => page.getByRole('region', { name: 'History' }).getByRole('listitem');

  test('show their names, the member by name, details by level, and what became of them', async () => {
    const { id, trip_id } = await makeQuote('Hotel Miramar');
    const feed = new FeedReader(gateway.request);
    const untilEvent = (type: string, count = 1) =>
      feed.until(() => feed.typesOf(id).filter((one) => one === type).length >= count);
    await untilEvent('quote.created');
    await send(`/v1/quotes/${id}`, { method: 'PATCH', body: { name: 'Hotel Miramar, Málaga' } });
    await untilEvent('quote.updated');
    await gateway.org.edit('Quote__c', { External_Id__c: id }, { Status__c: 'sent to client' });
    await untilEvent('quote.updated', 2);
    const [crm] = await gateway.org.records('Quote__c', { External_Id__c: id });
    const { page, check, close } = await open();
    await goTo(page, 'Records');
    const row = page.getByRole('row').filter({ hasText: 'Hotel Miramar, Málaga' });
    await row.getByRole('link', { name: member.name }).waitFor();
    await check('records-full');
    await row.getByRole('link', { name: 'Hotel Miramar' }).click();
    await page.getByRole('heading', { level: 1, name: 'Hotel Miramar, Málaga' }).waitFor();
    assert.equal(await page.title(), 'Hotel Miramar, Málaga – Handoff Gateway');
    await page.getByText('Created by').waitFor();
    assert.equal(await page.getByText('created_by').count(), 0);
    await page.getByRole('definition').filter({ hasText: 'ana@example.com (console)' }).waitFor();
    await page
      .getByText(/^\d{1,2} \w{3,4} \d{4}, \d\d:\d\d$/)
      .first()
      .waitFor();
    const html = await page.content();
    for (const crmId of [crm?.['Id'], crm?.['Member__c']] as string[])
      assert.ok(!html.includes(crmId.slice(0, 15)), crmId);

    await textOf(history(page), /ana@example\.com \(console\) asked to create this quote/);
    await textOf(history(page), /Name from Hotel Miramar to Hotel Miramar, Málaga/);
    await textOf(history(page), /Status from created to sent to client/);

    const panel = page.getByRole('region', { name: 'Details' });
    await textOf(panel, /Last day2027-02-30/);
    await panel.getByTitle('12345678901234567890.10', { exact: true }).waitFor();
    await textOf(panel, /12,345,678,901,234,567,890\.10/);
    await textOf(panel, /Parking, Transfer/);
    assert.equal(await panel.getByText('double', { exact: true }).count(), 0);
    await panel.getByText('2 fields').click();
    await panel.getByText('2 items').click();
    await panel.getByText('1 field', { exact: true }).first().click();
    await panel.getByText('queen').waitFor();
    await check('record');
    await panel.getByRole('button', { name: 'Raw text', exact: true }).click();
    await textOf(page.getByRole('region', { name: 'Raw text' }), /"net": 12345678901234567890\.10/);
    await check('record-raw');

    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const copy = page.getByRole('button', { name: "Copy the trip's ID" });
    await copy.focus();
    await page.keyboard.press('Enter');
    await textOf(page.getByRole('status'), /^Copied$/);
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), trip_id);

    await page.getByRole('link', { name: member.name }).click();
    await page.getByRole('heading', { level: 1, name: member.name }).waitFor();
    await page.getByText('nadia.quirke@example.com').waitFor();
    assert.equal(await page.title(), `${member.name} – Handoff Gateway`);
    await check('member');
    await page.getByRole('link', { name: 'Quotes of this member' }).click();
    await page.getByRole('link', { name: 'Hotel Miramar, Málaga' }).waitFor();
    assert.equal(await page.title(), 'Records – Handoff Gateway');
    await close();
  });

  test('show what became of one that is deleted', async () => {
    const { id } = await makeQuote('Gone by noon');
    await send(`/v1/quotes/${id}`, { method: 'DELETE' });
    const { page, check, close } = await open(gateway.console, `#/records/quotes/${id}`);
    await textOf(page.getByRole('alert'), /There's no quote/);
    await textOf(history(page), /asked to delete this quote/);
    await check('record-deleted');
    await close();
  });

  test('have fields of any name, and one that cannot be shown stands in the way of no other', async () => {
    const text = JSON.stringify({
      ...{ trip_id: randomUUID(), member_id: member.id, name: 'Odd names', source: 'x', details: {} },
    }).replace('{}', '{"constructor":"First","__proto__":{"toString":"Second"}}');
    const { id } = (await send('/v1/quotes', { body: text })) as { id: string };
    const { page, close } = await open(gateway.console, `#/records/quotes/${id}`);
    await page.getByRole('region', { name: 'Details' }).getByText('First').waitFor();
    const other = randomUUID();
    await page.route(`**/v1/quotes/${other}*`, (route) =>
      route.fulfill({ contentType: 'application/json', body: '{odd}' }),
    );
    await page.evaluate(`location.hash = '#/records/quotes/${other}'`);
    await textOf(page.getByRole('alert'), /Something went wrong in the console/);
    await goTo(page, 'Records');
    await page.getByRole('link', { name: 'Odd names' }).click();
    await page.getByRole('heading', { level: 1, name: 'Odd names' }).waitFor();
    await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').click();
    await page.getByRole('link', { name: 'Odd names' }).waitFor();
    // Where the page begins: the link that had the focus is gone.
    await page.locator('#main:focus').waitFor();
    await close();
  });

  test('are found again where they were left', async () => {
    const trip_id = randomUUID();
    for (let n = 0; n < 60; n++) await makeQuote(`Room ${n}`, { trip_id });
    const { page, close } = await open(gateway.console, `#/records/quotes?trip_id=${trip_id}`);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.getByRole('button', { name: 'Show more' }).click();
    const rows = page.getByRole('row');
    await rows.nth(60).waitFor();
    const last = page.getByRole('row').nth(58).getByRole('link').first();
    await last.scrollIntoViewIfNeeded();
    const height = await page.evaluate<number>('scrollY');
    assert.ok(height > 500);
    const name = (await last.textContent()) ?? '';
    await last.click();
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
    assert.equal(await page.evaluate('scrollY'), 0);
    asked.length = 0;
    await page.goBack();
    await rows.nth(60).waitFor();
    const isBack = async () => Math.abs((await page.evaluate<number>('scrollY')) - height) < 3;
    await eventually(async () => assert.ok(await isBack()));
    assert.deepEqual(
      asked.filter((url) => url.includes('/v1/quotes')),
      [],
    );
    assert.equal(await page.getByRole('textbox', { name: 'Trip' }).inputValue(), trip_id);
    await close();
  });

  test('keep what somebody types before the page is painted', async () => {
    const { page, close } = await open();
    await page.getByRole('article').first().waitFor();
    // It runs when the page has changed, before the browser shows it.
    await page.evaluate(`new MutationObserver((_, observer) => {
      const box = document.querySelector('input[type=search]');
      if (box === null) return;
      observer.disconnect();
      box.value = 'typed early';
      box.dispatchEvent(new Event('input', { bubbles: true }));
    }).observe(document.body, { childList: true, subtree: true })`);
    await goTo(page, 'Records');
    await page.getByText(/^Updated /).waitFor();
    assert.equal(await page.getByRole('searchbox', { name: 'Search' }).inputValue(), 'typed early');
    await close();
  });

  test('say what is missing, and how to go on', async () => {
    const reader = await gateway.newConsumer(
      { resource: 'bookings', actions: ['read', 'write'] },
      { resource: 'members', actions: ['read'] },
    );
    const { page, check, close } = await open(reader, '#/records/bookings');
    await page.getByText('No bookings yet.').waitFor();
    await page.getByRole('link', { name: 'Hand off a search result' }).waitFor();
    await check('records-empty');
    await page.getByRole('searchbox', { name: 'Search' }).fill('nowhere');
    await page.keyboard.press('Enter');
    await page.getByText('No bookings match “nowhere”.').waitFor();
    await page.getByRole('link', { name: 'Show all bookings' }).click();
    await page.getByText('No bookings yet.').waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await page.getByRole('button', { name: 'Refresh' }).click();
    const absent = page.getByText('Not available right now.');
    await absent.waitFor();
    await check('records-failing');
    await gateway.org.disarm();
    // The service asks the CRM again when it has waited.
    await eventually(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' });
      assert.equal(await absent.count(), 0);
    });
    await close();
  });

  test('names the members of a list without a request for each', async () => {
    const ids = Array.from({ length: 25 }, () => randomUUID());
    await gateway.org.insert(
      'Contact',
      ids.map((id, n) => ({ External_Id__c: id, FirstName: 'Guest', LastName: `Number ${n}` })),
    );
    const trip_id = randomUUID();
    for (const member_id of ids) await makeQuote('Seat', { trip_id, member_id });
    const { page, close } = await browser.open(`${gateway.url}/console/#/records/quotes?trip_id=${trip_id}`);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await signIn(page, gateway.console);
    await page
      .getByRole('link', { name: /^Guest Number/ })
      .nth(24)
      .waitFor();
    assert.deepEqual(
      asked.filter((url) => url.includes('/v1/members/')),
      [],
    );
    await close();
  });

  test('show a table by the clock of the restaurant, and how it was reserved', async () => {
    const body = newReservation(member.id);
    const { id } = await send('/v1/reservations', { body });
    const { start_at } = body['dining'] as { start_at: string };
    const { page, check, close } = await open();
    await goTo(page, 'Reservations');
    const link = page.getByRole('link', { name: 'Casa Olivo, a table for four' }).first();
    await link.waitFor();
    const clock = new Date(start_at).toLocaleTimeString('en-GB', {
      ...{ timeZone: 'Europe/Madrid', timeStyle: 'short' },
    });
    await textOf(page.getByRole('row'), new RegExp(`${clock}.*Madrid time`, 's'));
    await check('reservations-full');
    await page.goto(`${gateway.url}/console/#/reservations/${id}`);
    await page.getByRole('heading', { level: 1, name: 'Casa Olivo, a table for four' }).waitFor();
    await page.getByRole('link', { name: member.name }).waitFor();
    await textOf(history(page), /ana@example\.com \(console\) asked to reserve the table/);
    await textOf(history(page), /Table and booking confirmed/);
    await check('reservation');
    await close();
  });
});
