import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { useGateway } from '../../support/gateway.ts';
import { openSignedIn, textOf } from './pages.ts';

interface Made {
  id: string;
  apiKey: string;
  apiSecret: string;
}

describe('consumers and the access log in the console', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();
  const open = (hash: string) => openSignedIn(browser, gateway, gateway.admin, hash);
  const permissions = [{ resource: 'quotes', actions: ['read', 'write'] }];
  const make = async (name: string, more: object = {}): Promise<Made> => {
    const body = { name, permissions, ...more };
    const response = await gateway.request('/v1/admin/consumers', { body, as: gateway.admin });
    assert.equal(response.status, 201, await response.clone().text());
    return (await response.json()) as Made;
  };
  const change = async (id: string, body: object, headers: Record<string, string> = {}) => {
    const path = `/v1/admin/consumers/${id}`;
    const response = await gateway.request(path, { method: 'PATCH', body, as: gateway.admin, headers });
    assert.equal(response.status, 200, await response.text());
  };
  const namesIn = (page: Page) => page.locator('td[data-title=Name]').getByRole('link');
  const showsOnly = (page: Page, names: string[]) =>
    eventually(async () => assert.deepEqual((await namesIn(page).allTextContents()).toSorted(), names));

  test('has the buttons of a row side by side, and labels on the line of their values', async () => {
    const { id } = await make('One line');
    const { page, close } = await open('#/consumers');
    const row = page.getByRole('row').filter({ hasText: id });
    const [rotate, disable] = [/^Rotate/, /^Disable/].map((name) => row.getByRole('button', { name }));
    await page.setViewportSize({ width: 1440, height: 900 });
    assert.equal((await rotate?.boundingBox())?.y, (await disable?.boundingBox())?.y);
    await page.setViewportSize({ width: 390, height: 844 });
    const [label, value] = await page.evaluate<string[]>(
      `["::before", null].map((part) => getComputedStyle(document.querySelector('td[data-title=Permissions]'), part).lineHeight)`,
    );
    assert.equal(label, value);
    await row.getByRole('link').first().click();
    const edit = await page.getByRole('button', { name: 'Edit…' }).boundingBox();
    assert.equal(edit?.x, (await page.getByRole('heading', { level: 1 }).boundingBox())?.x);
    await close();
  });

  test('finds one among many, and keeps the search for a reload, a link and Back', async () => {
    for (let n = 0; n < 60; n += 1) await make(`Agency ${n}`);
    const wanted = await make('Needle Travel');
    await make('Needle Tours', { enabled: false });
    await make('Needle Trial', { mode: 'test' });
    for (let n = 60; n < 70; n += 1) await make(`Agency ${n}`);
    const { page, check, close } = await open('#/consumers');
    const box = page.getByRole('searchbox', { name: 'Search' });
    await box.fill('nEEdle');
    await box.press('Enter');
    await showsOnly(page, ['Needle Tours', 'Needle Travel', 'Needle Trial']);
    await page.getByLabel('Status').selectOption('Active');
    await page.getByLabel('Keys').selectOption('Live');
    await showsOnly(page, ['Needle Travel']);
    const address = await page.evaluate<string>('location.hash');
    assert.equal(address, '#/consumers?search=nEEdle&status=active&mode=live');
    await namesIn(page).click();
    await page.getByRole('heading', { level: 1, name: 'Needle Travel' }).waitFor();
    assert.equal(await page.title(), 'Needle Travel – Handoff Gateway');
    await page.getByRole('link', { name: 'Consumers' }).last().click();
    await showsOnly(page, ['Needle Travel']);
    assert.equal(await page.evaluate('location.hash'), address);
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Needle Travel' }).waitFor();
    await page.goBack();
    await showsOnly(page, ['Needle Travel']);
    assert.equal(await box.inputValue(), 'nEEdle');
    await box.fill('no such consumer');
    await box.press('Enter');
    await page.getByText('No consumers match these filters.').waitFor();
    await check('no consumer');
    await page.getByRole('button', { name: 'Show all' }).click();
    await namesIn(page).nth(49).waitFor();
    await gateway.request(`/v1/admin/consumers/${wanted.id}`, { method: 'DELETE', as: gateway.admin });
    await page.getByLabel('Status').selectOption('Revoked');
    await page.getByRole('link', { name: 'Needle Travel' }).click();
    await page.getByText('If it was revoked').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Needle Travel' }).waitFor();
    await close();
  });

  test('has a page for each, with what it may do, uses, and who changed it', async () => {
    const partner = await make('Partner X', { allowance: { requests: 50, per: 'month' } });
    for (const path of ['/v1/quotes', '/v1/quotes', '/v1/members'])
      await (await gateway.request(path, { as: partner })).text();
    await change(partner.id, { rateLimitPerMinute: 60 });
    await change(partner.id, { rateLimitPerMinute: 120 }, { 'x-actor': 'Ada Byron' });
    const { page, check, close } = await open('#/consumers');
    const asked: string[] = [];
    page.on('request', (request) => {
      if (/consumers|audit-events|auth-attempts/.test(request.url())) asked.push(request.url());
    });
    await namesIn(page).filter({ hasText: 'Partner X' }).waitFor();
    asked.length = 0;
    await namesIn(page).filter({ hasText: 'Partner X' }).click();
    const access = page.getByRole('region', { name: 'Access', exact: true });
    await textOf(access, /Read and write quotes.*120.*3 of 50 requests used this month/s);
    await page.getByRole('slider', { name: /^Requests, requests, over the last 30 days/ }).waitFor();
    const changes = page.getByRole('region', { name: 'Changes' });
    await textOf(
      changes.getByRole('listitem').first(),
      /^Ada Byron \(not verified, via admin\) changed Partner X's limits: requests per minute 60 → 120/,
    );
    await changes.getByText('Raw data').first().click();
    await textOf(changes.getByRole('region', { name: /^Raw data for/ }), /"field": "rateLimitPerMinute"/);
    const log = page.getByRole('region', { name: 'Access log' });
    await textOf(log.getByRole('row').nth(1), /No permission 403.*GET \/v1\/members/);
    assert.equal(asked.length, 4, asked.join('\n'));
    await check('the page of a consumer');
    await page.getByRole('link', { name: 'All requests' }).click();
    await page.getByRole('heading', { level: 1, name: 'Access log' }).waitFor();
    await eventually(async () => assert.equal(await page.getByLabel('Consumer').inputValue(), 'Partner X'));
    await page.getByRole('row').nth(3).waitFor();
    assert.equal(await page.getByRole('row').count(), 4);
    await close();
  });

  test('filters the access log by name, result, time and address, in its address', async () => {
    const partner = await make('Lisboa Travel');
    await make('Lisboa Events');
    await (await gateway.request('/v1/quotes', { as: partner })).text();
    await (await gateway.request('/v1/members', { as: partner })).text();
    // An address of before.
    const { page, check, close } = await open('#/attempts');
    await page.getByRole('heading', { level: 1, name: 'Access log' }).waitFor();
    assert.equal(await page.evaluate('location.hash'), '#/access-log');
    const consumer = page.getByLabel('Consumer');
    await consumer.fill('lisboa');
    await consumer.press('Enter');
    await page.getByText('Several consumers match.').waitFor();
    await check('an ambiguous consumer');
    await consumer.fill('lisboa travel');
    await page.getByLabel('Address').fill('127.0.0.1');
    const held = Promise.withResolvers<void>();
    await page.route('**/v1/admin/consumers?q=lisboa*', async (route) => {
      await held.promise;
      await route.continue();
    });
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByLabel('Result').selectOption('No permission');
    held.resolve();
    await page.getByLabel('Time').selectOption('Last hour');
    const rows = page.getByRole('row').filter({ hasText: 'Lisboa Travel' });
    await textOf(rows, /No permission 403.*GET \/v1\/members.*127\.0\.0\.1/);
    const address = `#/access-log?consumer_id=${partner.id}&result=permission_denied&hours=1&address=127.0.0.1`;
    await eventually(async () => assert.equal(await page.evaluate('location.hash'), address));
    await page.getByRole('row').nth(2).waitFor({ state: 'detached' });
    await rows.getByRole('link', { name: 'Lisboa Travel' }).click();
    await page.getByRole('heading', { level: 1, name: 'Lisboa Travel' }).waitFor();
    await page.goBack();
    await rows.first().waitFor();
    assert.equal(await page.evaluate('location.hash'), address);
    assert.equal(await page.getByRole('row').count(), 2);
    await close();
    const again = await open(address);
    await textOf(again.page.getByRole('row').nth(1), /No permission 403.*GET \/v1\/members/);
    assert.equal(await again.page.getByRole('row').count(), 2);
    await again.close();
  });

  test('offers nothing that the permissions do not allow', async () => {
    const reader = await gateway.newConsumer({ resource: 'consumers', actions: ['read'] });
    const { page, close } = await openSignedIn(browser, gateway, reader, `#/consumers/${gateway.console.id}`);
    await page.getByRole('heading', { level: 1, name: 'console' }).waitFor();
    await page.getByRole('region', { name: 'Keys' }).waitFor();
    assert.equal(await page.getByRole('button', { name: /…$/ }).filter({ hasNotText: 'Find' }).count(), 0);
    await close();
  });

  test('leads to the page of a new consumer, once its secret is stored', async () => {
    const { page, close } = await open('#/consumers');
    await page.getByRole('button', { name: 'New consumer…' }).click();
    await page.getByLabel('Name').fill('Partner New');
    await page.getByRole('checkbox', { name: 'quotes read' }).check();
    await page.getByRole('button', { name: 'Create consumer' }).click();
    const stored = page.getByRole('button', { name: "I've stored it" });
    await stored.waitFor();
    await page.keyboard.press('Escape');
    await page.goBack();
    await page.goForward();
    await stored.click();
    const heading = page.getByRole('heading', { level: 1, name: 'Partner New' });
    await heading.and(page.locator(':focus')).waitFor();
    await close();
  });
});
