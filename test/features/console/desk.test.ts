import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { FeedReader } from '../../support/feed.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';
import { goTo, openSignedIn, textOf } from './pages.ts';

describe('what people look after in the console', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '0.5', CHANGES_MINIMUM_SECONDS: '0.2' });
  const open = (as: Credentials, hash = '') => openSignedIn(browser, gateway, as, hash);

  test('shows events from the newest on, by name, and older ones on request', async () => {
    const people = Array.from({ length: 60 }, (_, n) => ({
      External_Id__c: randomUUID(),
      LastName: `Person ${n}`,
    }));
    await gateway.org.insert('Contact', people);
    const feed = new FeedReader(gateway.request);
    const last = people.at(-1)?.External_Id__c;
    await feed.until(({ resource }) => resource.id === last && feed.events.length >= people.length);
    const { page, check, close } = await open(gateway.console);
    await goTo(page, 'Events');
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByRole('row').nth(60).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Show more' }).count(), 0);
    const latest = { External_Id__c: randomUUID(), LastName: 'Latest' };
    await gateway.org.insert('Contact', [latest]);
    await page.getByRole('button', { name: 'Refresh' }).click();
    const first = page.getByRole('row').nth(1);
    await first.getByRole('link', { name: 'Latest' }).waitFor();
    await check('events newest first');
    await first.getByRole('link', { name: 'Latest' }).click();
    await page.waitForURL(new RegExp(`#/records/members/${latest.External_Id__c}`));
    await close();
  });

  test('asks again only once it was answered, and says when that was', async () => {
    const { page, close } = await open(gateway.console);
    await page.getByRole('article').first().waitFor();
    await page.clock.install();
    const held = Promise.withResolvers<void>();
    const asked: string[] = [];
    await page.route('**/v1/events?*', async (route) => {
      asked.push(route.request().url());
      await held.promise;
      await route.continue();
    });
    await Promise.all([page.waitForRequest('**/v1/events?*'), goTo(page, 'Events')]);
    await page.clock.runFor(20_000);
    assert.equal(asked.length, 1);
    held.resolve();
    await page.getByText(/^Updated /).waitFor();
    await Promise.all([page.waitForRequest('**/v1/events?*'), page.clock.runFor(5000)]);
    await page.clock.setFixedTime(Date.now() + 3_600_000);
    const clock = await page.evaluate<string>(
      `new Date().toLocaleTimeString('en-GB', { timeStyle: 'short' })`,
    );
    await page.getByRole('button', { name: 'Refresh' }).click();
    const said = await textOf(page.getByText(/^Updated /), new RegExp(`\\(${clock}\\)`));
    assert.match(said, /just now/);
    await close();
  });

  test('says in the row of an endpoint that it fails, since when, and how much waits', async (context) => {
    const receiver = await startWebhookReceiver();
    context.after(() => receiver.stop());
    receiver.answer = (response) => response.writeHead(503).end();
    const body = { url: `${receiver.url}/failing`, event_types: ['quote.*'] };
    await gateway.request('/v1/webhook-endpoints', { body, as: gateway.admin });
    const { page, check, close } = await open(gateway.admin, '#/events/endpoints');
    const row = page.getByRole('row').filter({ hasText: '/failing' });
    await textOf(row, /Nothing sent yet/);
    await row.getByRole('button', { name: 'Send a test' }).click();
    await textOf(row.getByRole('status'), /Test failed: HTTP 503\. We'll try again/);
    await textOf(row, /failing.*Last failure.*no success yet.*1 event waiting/s);
    await check('a failing endpoint');
    await close();
  });

  test('says what is not fresh while the CRM is down', async () => {
    const { page, check, close } = await open(gateway.console, '#/health');
    await page.getByText('All systems operational').waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    // What notices that first.
    await gateway.request('/v1/quotes', { headers: { 'cache-control': 'no-cache' } });
    await page.getByRole('button', { name: 'Refresh' }).click();
    await textOf(
      page.getByRole('main'),
      /Not connected: Salesforce\. Paused: Change feed.*While Salesforce isn't connected.*Events from the last/s,
    );
    await check('health without the CRM');
    await gateway.org.disarm();
    await page.getByText('All systems operational').waitFor();
    await close();
  });

  test('says that an address leads to no page, or to one that is not allowed', async () => {
    const { page, check, close } = await open(gateway.console, '#/nosuch/page');
    await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
    await check('no page');
    assert.equal(await page.title(), 'Page not found – Handoff Gateway');
    for (const wrong of [
      ...['#/health/x', '#/records/cats', '#/events/x', '#/hand-off/1'],
      ...['#/records/quotes/..', '#/records/members/a%2Fb', '#/reservations/.'],
    ]) {
      await page.getByRole('link', { name: 'Go to the start page' }).click();
      await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
      await page.evaluate(`location.hash = '${wrong}'`);
      await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
    }
    await page.evaluate(`location.hash = '#/consumers'`);
    await page.getByRole('heading', { level: 1, name: 'No access to this page' }).waitFor();
    await close();
    const reader = await gateway.newConsumer({ resource: 'bookings', actions: ['read'] });
    // Not what else may be read, under the address of what may not.
    for (const forbidden of [`#/records/quotes/${randomUUID()}`, '#/records/members', '#/events/endpoints']) {
      const other = await open(reader, forbidden);
      await other.page.getByRole('heading', { level: 1, name: 'No access to this page' }).waitFor();
      await other.close();
    }
  });

  test('says of a request with a right key that it failed, where its status says so', async () => {
    const asked = async (path: string) => {
      const response = await gateway.request(path, { as: gateway.console });
      await response.text();
      return response.headers.get('x-request-id') ?? assert.fail(path);
    };
    const [missing, found] = [await asked(`/v1/quotes/${randomUUID()}`), await asked('/v1/quotes')];
    const { page, close } = await open(gateway.admin, `#/access-log?request_id=${missing}`);
    const rows = page.getByRole('row');
    await textOf(rows.nth(1), /Request error 404/);
    await page.evaluate(`location.hash = '#/access-log?request_id=${found}'`);
    await textOf(rows.nth(1), /Accepted 200/);
    const lost = await asked('/v1/nothing');
    await page.evaluate(`location.hash = '#/access-log?request_id=${lost}'`);
    await textOf(rows.nth(1), /Request error 404.*GET, unknown path/);
    await close();
  });

  test('shows all again where a filter leaves nothing', async () => {
    const { page, check, close } = await open(gateway.admin, '#/access-log');
    const consumer = page.getByLabel('Consumer');
    await consumer.fill('con_none');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No requests match these filters.').waitFor();
    await check('no request');
    await page.getByRole('button', { name: 'Show all' }).click();
    await page.getByRole('row').nth(1).waitFor();
    assert.equal(await consumer.inputValue(), '');
    await goTo(page, 'Events');
    await page.getByLabel('Record id').fill(randomUUID());
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No events match these filters.').waitFor();
    await page.getByRole('button', { name: 'Show all' }).click();
    await page.getByRole('row').nth(1).waitFor();
    await close();
  });

  test('puts what is wrong with a form at its fields, once', async () => {
    const { page, check, close } = await open(gateway.admin, '#/consumers');
    await page.getByRole('button', { name: 'New consumer…' }).click();
    await page.getByLabel('Name').fill('Partner F');
    await page.getByRole('button', { name: 'Create consumer' }).click();
    await textOf(page.getByRole('alert'), /^Choose at least one permission\.$/);
    await check('a form with an error');
    await page.getByRole('checkbox', { name: 'quotes read' }).check();
    await page.getByText('Limits').click();
    await page.getByLabel('Allowed addresses').fill('10.0.0.0/8\nsomewhere');
    await page.getByRole('button', { name: 'Create consumer' }).click();
    const box = page.getByLabel('Allowed addresses').and(page.locator('[aria-invalid]'));
    await box.and(page.locator(':focus')).waitFor();
    assert.equal(await page.getByText(/^“somewhere” .*\.$/).count(), 1);
    assert.equal(await page.getByRole('alert').count(), 0);
    await page.evaluate(`location.hash = '#/events/endpoints'`);
    await page.getByRole('heading', { level: 1, name: 'Events' }).waitFor();
    await page.getByLabel('Address').fill('https://127.0.0.1.nip.invalid:22/');
    await page.getByRole('button', { name: 'Create endpoint' }).click();
    await page.getByLabel('Address').and(page.locator('[aria-invalid]')).waitFor();
    await close();
  });

  test('shows no key of an expired consumer as active', async () => {
    const { id } = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const body = { validUntil: new Date(Date.now() - 1000).toISOString() };
    const path = `/v1/admin/consumers/${id}`;
    const changed = await gateway.request(path, { method: 'PATCH', body, as: gateway.admin });
    assert.equal(changed.status, 200, await changed.text());
    const { page, close } = await open(gateway.admin, '#/consumers?status=expired');
    const row = page.getByRole('row').filter({ hasText: id });
    await row.getByText('expired', { exact: true }).first().waitFor();
    assert.equal(await row.getByText('active').count(), 0);
    await row.getByRole('link').click();
    await page.getByRole('region', { name: 'Keys' }).getByText('invalid').waitFor();
    assert.equal(await page.getByText('active', { exact: true }).count(), 0);
    await close();
  });
});
