import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { findChromium, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { goTo, signIn, textOf } from './pages.ts';

const program = findChromium();

describe('the console in a browser', {
  skip: program === undefined && 'there is no Chromium on this machine',
}, () => {
  let gateway: TestGateway;
  let browser: TestBrowser;
  before(async () => {
    gateway = await startGateway({ HANDOFF_WHEN_CRM_IS_UNAVAILABLE: 'accept', CHANGES_POLL_SECONDS: '2' });
    browser = await startBrowser(program as string);
  });
  after(async () => {
    await browser.close();
    await gateway.stop();
  });
  const address = () => `${gateway.url}/console/`;

  test('lets nobody in without valid credentials, and says so', async () => {
    const { page, close } = await browser.open(address());
    await signIn(page, { ...gateway.admin, apiSecret: 'wrong' });
    await textOf(page.getByRole('alert'), /not valid/);
    await signIn(page, { apiKey: 'kéy', apiSecret: 'x' });
    await textOf(page.getByRole('alert'), /not valid/);
    await signIn(page, gateway.admin);
    await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    await close();
  });

  test('shows each consumer only the pages that it may use', async () => {
    const reader = await gateway.newConsumer({ resource: 'members', actions: ['read'] });
    const { page, close } = await browser.open(address());
    const names = () => page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
    await signIn(page, reader);
    await page.getByRole('heading', { level: 1, name: 'Records' }).waitFor();
    assert.deepEqual(await names(), ['Records', 'Events', 'Health']);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, gateway.console);
    await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
    const own = await names();
    assert.ok(own.includes('Hand-off') && !own.includes('Consumers') && !own.includes('Attempts'));
    await close();
  });

  test('makes a consumer, shows its secret until it is stored, rotates, disables and enables it', async () => {
    const { page, check, close } = await browser.open(address());
    await signIn(page, gateway.admin);
    await goTo(page, 'Consumers');
    await page.getByLabel('Name').fill('Partner B');
    await page.getByRole('checkbox', { name: 'quotes read' }).check();
    await page.getByRole('checkbox', { name: 'members read' }).check();
    await page.getByRole('button', { name: 'Create consumer' }).click();
    const stored = page.getByRole('button', { name: 'I have stored it' });
    await stored.waitFor();
    const [apiKey = '', apiSecret = ''] = await page.getByRole('definition').allTextContents();
    const quotes = () => gateway.request('/v1/quotes', { as: { apiKey, apiSecret } });
    assert.equal((await quotes()).status, 200);
    // Nothing but the button leaves the secret.
    await page.keyboard.press('Escape');
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Health' }).click();
    await page.getByText(apiSecret).waitFor();
    await stored.click();
    await page.getByRole('heading', { level: 1, name: 'Health' }).waitFor();
    assert.ok(!(await page.content()).includes(apiSecret));
    await goTo(page, 'Consumers');
    const row = page.getByRole('row').filter({ hasText: 'Partner B' });
    await row.getByRole('button', { name: 'Rotate' }).click();
    await page.getByLabel('Grace window (hours)').fill('0');
    await page.getByRole('button', { name: 'Rotate now' }).click();
    await stored.waitFor();
    assert.notEqual((await page.getByRole('definition').allTextContents())[1], apiSecret);
    assert.equal((await quotes()).status, 401);
    await stored.click();
    await row.getByRole('button', { name: 'Disable' }).click();
    await row.getByText('disabled', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Enable' }).click();
    await row.getByText('enabled', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Revoke' }).click();
    await row.getByRole('button', { name: 'Revoke now' }).click();
    await row.waitFor({ state: 'detached' });
    await goTo(page, 'Attempts');
    await page.getByRole('link', { name: 'Changes' }).click();
    for (const action of ['created', 'rotated', 'disabled', 'enabled', 'revoked'])
      await page
        .getByRole('row')
        .filter({ hasText: `consumer.${action}` })
        .filter({ hasText: 'Partner B' })
        .waitFor();
    await check('changes');
    await close();
  });

  test('ends the session when its credentials are no longer valid', async () => {
    const consumer = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const { page, close } = await browser.open(address());
    await signIn(page, consumer);
    await page.getByRole('heading', { level: 1, name: 'Records' }).waitFor();
    const path = `/v1/admin/consumers/${consumer.id}`;
    assert.equal((await gateway.request(path, { method: 'DELETE', as: gateway.admin })).status, 204);
    await page.getByRole('button', { name: 'Refresh' }).click();
    await textOf(page.getByRole('alert'), /You were signed out/);
    await close();
  });

  test('follows a hand-off that waits for the CRM until it is created', async () => {
    const { page, close } = await browser.open(address());
    await signIn(page, gateway.console);
    const button = page
      .getByRole('article')
      .first()
      .getByRole('button', { name: 'Hand off as quote', disabled: false });
    await button.waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await button.click();
    await textOf(page.getByRole('status'), /Quote accepted/);
    await page.getByRole('status').getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: 'Waiting' }).waitFor();
    await page.getByRole('row').filter({ hasText: 'waiting' }).waitFor();
    await gateway.org.disarm();
    await page.getByRole('row').filter({ hasText: 'created' }).waitFor();
    await goTo(page, 'Hand-off');
    await textOf(page.getByRole('status'), /Quote created.*Open the quote in the CRM/s);
    await goTo(page, 'Events');
    await page.getByRole('row').filter({ hasText: 'handoff.created' }).waitFor();
    await close();
  });

  test('makes a webhook endpoint, shows its secret once, and sends it a test', async () => {
    const received: string[] = [];
    const receiver = createServer((request, response) => {
      received.push(String(request.headers['webhook-id']));
      request.resume().on('end', () => response.writeHead(204).end());
    });
    await once(receiver.listen(0, '127.0.0.1'), 'listening');
    const { port } = receiver.address() as AddressInfo;
    const { page, check, close } = await browser.open(address());
    await signIn(page, gateway.admin);
    await goTo(page, 'Events');
    await page.getByRole('link', { name: 'Webhook endpoints' }).click();
    await page.getByLabel('Address').fill(`http://127.0.0.1:${port}/hooks`);
    await page.getByRole('button', { name: 'Create endpoint' }).click();
    assert.match((await page.getByRole('definition').textContent()) ?? '', /^whsec_/);
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByRole('link', { name: '/hooks' }).click();
    const row = page.getByRole('row').filter({ hasText: 'ping' });
    await row.getByText('delivered').waitFor();
    assert.equal(received.length, 1);
    await row.getByRole('button', { name: 'Resend' }).click();
    await row.getByRole('listitem').nth(1).waitFor();
    await check('deliveries');
    await close();
    receiver.closeAllConnections();
    receiver.close();
  });

  test('works with the keyboard alone', async () => {
    const { page, close } = await browser.open(address());
    await page.getByLabel('API key').waitFor();
    await page.keyboard.type(gateway.console.apiKey);
    await page.keyboard.press('Tab');
    await page.keyboard.type(gateway.console.apiSecret);
    await page.keyboard.press('Enter');
    const button = page
      .getByRole('article')
      .first()
      .getByRole('button', { name: 'Hand off as booking', disabled: false });
    await button.waitFor();
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press('Tab');
      if (await button.evaluate((element) => element === element.ownerDocument.activeElement)) break;
    }
    await page.keyboard.press('Enter');
    await textOf(page.getByRole('status'), /Booking created/);
    assert.ok(await button.evaluate((element) => element === element.ownerDocument.activeElement));
    await close();
  });

  test('has no fault that axe finds on any page, light or dark, wide or narrow', async () => {
    const { page, check, close } = await browser.open(address());
    await page.getByLabel('API key').waitFor();
    await check('sign-in');
    await signIn(page, gateway.admin);
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /created/);
    await check('hand-off');
    const names = await page.getByRole('navigation').getByRole('link').allTextContents();
    for (const name of names.filter((one) => one !== 'Hand-off')) {
      await goTo(page, name);
      await page.getByText('Read now').first().waitFor();
      await check(name.toLowerCase());
    }
    await close();
  });
});
