import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';
import { chooseMember, goTo, signIn, textOf } from './pages.ts';

describe('the console in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });
  const address = () => `${gateway.url}/console/`;

  test('asks for at most 5 files and 90 KiB until the sign-in form', async () => {
    const { page, close } = await browser.open(address());
    await page.getByLabel('API key').waitFor();
    const loaded = await page.evaluate<[string, number][]>(
      `['navigation', 'resource'].flatMap((type) => performance.getEntriesByType(type))
        .map(({ name, encodedBodySize }) => [new URL(name).pathname, encodedBodySize])`,
    );
    // Not every browser asks for the icon.
    const asked = loaded.filter(([path]) => !path.endsWith('.svg'));
    assert.ok(asked.length <= 4, asked.join('\n'));
    const bytes = asked.reduce((sum, [, size]) => sum + size, 0);
    assert.ok(bytes > 10_000 && bytes <= 90 * 1024, `${bytes} bytes`);
    await close();
  });

  test('lets nobody in without valid credentials, and says so', async () => {
    const { page, close } = await browser.open(address());
    await signIn(page, { ...gateway.admin, apiSecret: 'wrong' });
    await textOf(page.getByRole('alert'), /Invalid key or secret/);
    await signIn(page, { apiKey: 'kéy', apiSecret: 'x' });
    await textOf(page.getByRole('alert'), /Invalid key or secret/);
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
    assert.deepEqual(await names(), ['Records', 'Events', 'Health', 'My access']);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, gateway.console);
    await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
    const own = await names();
    assert.ok(own.includes('Hand-off') && !own.includes('Consumers') && !own.includes('Access log'));
    await close();
  });

  test('makes a consumer, shows its secret until it is stored, rotates, disables and enables it', async () => {
    const { page, check, close } = await browser.open(address());
    await signIn(page, gateway.admin);
    await goTo(page, 'Consumers');
    await page.getByRole('button', { name: 'New consumer…' }).click();
    await page.getByLabel('Name').fill('Partner B');
    await page.getByRole('checkbox', { name: 'quotes read' }).check();
    await page.getByRole('checkbox', { name: 'members read' }).check();
    await page.getByRole('button', { name: 'Create consumer' }).click();
    const stored = page.getByRole('button', { name: "I've stored it" });
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
    await row.getByRole('button', { name: 'Disable…' }).click();
    await page.getByRole('button', { name: 'Disable now' }).click();
    await row.getByText('disabled', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Enable' }).click();
    await row.getByText('active', { exact: true }).waitFor();
    await row.getByRole('link', { name: 'Partner B' }).click();
    await page.getByRole('heading', { level: 1, name: 'Partner B' }).waitFor();
    await page.getByRole('region', { name: 'Changes' }).getByText('enabled Partner B').waitFor();
    await check('a consumer');
    await page.getByRole('button', { name: 'Revoke…' }).click();
    await page.getByRole('button', { name: 'Revoke now' }).click();
    await page.getByRole('heading', { level: 1, name: 'Consumers' }).waitFor();
    await row.waitFor({ state: 'detached' });
    await goTo(page, 'Access log');
    await page.getByRole('link', { name: 'Changes' }).click();
    for (const done of [
      "rotated Partner B's key",
      ...['created', 'disabled', 'enabled', 'revoked'].map((verb) => `${verb} Partner B`),
    ])
      await page
        .getByRole('row')
        .filter({ hasText: `admin ${done}` })
        .waitFor();
    await check('changes');
    await close();
  });

  test('shows a consumer its own access, and lets it rotate its key', async () => {
    const partner = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const { page, close } = await browser.open(address());
    await signIn(page, partner);
    await goTo(page, 'My access');
    await page.getByText('Read quotes').waitFor();
    await page.getByRole('row').filter({ hasText: 'GET /v1/consumer' }).first().waitFor();
    await page.getByRole('slider', { name: /^Requests, requests, over the last 30 days/ }).waitFor();
    await page.getByRole('button', { name: 'Rotate my key' }).click();
    await page.getByLabel('Grace window (hours)').fill('1');
    await page.getByRole('button', { name: 'Rotate now' }).click();
    await page.getByRole('button', { name: "I've stored it" }).waitFor();
    const [apiKey = '', apiSecret = ''] = await page.getByRole('definition').allTextContents();
    assert.equal((await gateway.request('/v1/quotes', { as: { apiKey, apiSecret } })).status, 200);
    await page.getByRole('button', { name: "I've stored it" }).click();
    const keys = page.getByRole('region', { name: 'Keys' });
    await keys.getByRole('row').filter({ hasText: 'rotated' }).waitFor();
    await close();
  });

  test('makes a test consumer, says on every page that it is one, and empties its world', async () => {
    const { page, check, close } = await browser.open(address());
    await signIn(page, gateway.admin);
    await goTo(page, 'Consumers');
    assert.equal(await page.getByRole('complementary', { name: 'Test mode' }).count(), 0);
    await page.getByRole('button', { name: 'New consumer…' }).click();
    await page.getByLabel('Name').fill('Partner T');
    await page.getByRole('checkbox', { name: 'Test keys' }).check();
    for (const resource of ['members', 'quotes']) {
      for (const action of ['read', 'write'])
        await page.getByRole('checkbox', { name: `${resource} ${action}`, exact: true }).check();
    }
    await page.getByRole('button', { name: 'Create consumer' }).click();
    await page.getByRole('heading', { name: "Partner T's credentials" }).waitFor();
    const [apiKey = '', apiSecret = ''] = await page.getByRole('definition').allTextContents();
    assert.match(`${apiKey} ${apiSecret}`, /^hgkt_\w+ hgst_\w+$/);
    await page.getByRole('button', { name: "I've stored it" }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, { apiKey, apiSecret });
    const band = page.getByRole('complementary', { name: 'Test mode' });
    await band.waitFor();
    await chooseMember(page);
    const article = page.getByRole('article').first();
    await article.getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /Quote created/);
    await page.getByRole('link', { name: 'Show the quote' }).waitFor();
    await goTo(page, 'Records');
    await page
      .getByText(/^Updated /)
      .first()
      .waitFor();
    assert.equal(await page.getByRole('cell', { name: 'created', exact: true }).count(), 1);
    await check('records in test mode');
    await goTo(page, 'My access');
    await band.waitFor();
    await page.getByRole('button', { name: 'Start over…' }).click();
    await page.getByText('Delete everything made').waitFor();
    await check('my access in test mode');
    await page.getByRole('button', { name: 'Delete everything' }).click();
    await textOf(page.getByRole('status'), /Deleted everything/);
    await goTo(page, 'Records');
    await page
      .getByText(/^Updated /)
      .first()
      .waitFor();
    assert.equal(await page.getByRole('cell', { name: 'created', exact: true }).count(), 0);
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
    assert.equal(await page.title(), 'Sign in – Handoff Gateway');
    await close();
  });

  test('follows a hand-off that waits for the CRM until it is created', async () => {
    const { page, close } = await browser.open(address());
    await signIn(page, gateway.console);
    const button = page
      .getByRole('article')
      .first()
      .getByRole('button', { name: 'Hand off as quote', disabled: false });
    await chooseMember(page);
    await button.waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await button.click();
    await textOf(page.getByRole('status'), /Quote accepted/);
    await page.getByRole('status').getByRole('link', { name: 'Follow the hand-off' }).click();
    const progress = page.getByRole('region', { name: 'Progress' });
    await textOf(progress.locator('[aria-current="step"]'), /to Salesforce/);
    await goTo(page, 'Waiting');
    await page.getByRole('row').filter({ hasText: 'waiting' }).waitFor();
    await gateway.org.disarm();
    await page.getByRole('row').filter({ hasText: 'created' }).waitFor();
    await goTo(page, 'Hand-off');
    await textOf(page.getByRole('status'), /Quote created.*Open the quote in Salesforce/s);
    await goTo(page, 'Events');
    await page.getByRole('row').filter({ hasText: 'handoff.created' }).waitFor();
    await close();
  });

  test('finds records by a part of a name, a trip and a status, and goes back to what was found', async () => {
    const trip_id = randomUUID();
    const member_id = gateway.org.memberId;
    const make = async (name: string) => {
      const body = { trip_id, member_id, name, source: 'searched', details: {} };
      const headers = { 'idempotency-key': randomUUID() };
      assert.equal((await gateway.request('/v1/quotes', { body, headers })).status, 201);
    };
    await make('Villa Aurora');
    await make('Aurora borealis tour');
    const { page, close } = await browser.open(address());
    await signIn(page, gateway.console);
    await goTo(page, 'Records');
    const box = page.getByRole('searchbox', { name: 'Search' });
    const search = async (text: string, found: string[]) => {
      await box.fill(text);
      await box.press('Enter');
      const links = page.locator('td[data-title=Name]').getByRole('link');
      await textOf(page.getByRole('table'), new RegExp(found[0] as string));
      await links.nth(found.length).waitFor({ state: 'detached' });
      assert.deepEqual((await links.allTextContents()).sort(), [...found].sort());
    };
    await search('LLA aur', ['Villa Aurora']);
    await search('aurora', ['Villa Aurora', 'Aurora borealis tour']);
    await search('villa', ['Villa Aurora']);
    await search(trip_id, ['Villa Aurora', 'Aurora borealis tour']);
    await page.getByRole('link', { name: 'Villa Aurora' }).click();
    await page.getByText('searched').first().waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 'Aurora borealis tour' }).waitFor();
    assert.equal(await box.inputValue(), trip_id);
    await box.fill('no such thing');
    await box.press('Enter');
    await page.getByText('No quotes match “no such thing”.').waitFor();
    await page.getByRole('link', { name: 'Members' }).click();
    await page.getByText('No members match “no such thing”.').waitFor();
    const { last_name } = (await (await gateway.request(`/v1/members/${member_id}`)).json()) as {
      last_name: string;
    };
    await box.fill(last_name.slice(1).toUpperCase());
    await box.press('Enter');
    await page.getByRole('link', { name: last_name }).first().waitFor();
    await close();
  });

  test('approves and rejects hand-offs, and shows what is to be written', async () => {
    const needing = { actions: ['read' as const, 'write' as const], approval: true };
    const agent = await gateway.newConsumer(
      { resource: 'quotes', ...needing },
      { resource: 'members', actions: ['read'] },
    );
    const { page, check, close } = await browser.open(address());
    await signIn(page, agent);
    await chooseMember(page);
    for (const nth of [0, 1]) {
      const card = page.getByRole('article').nth(nth);
      await card.getByRole('button', { name: 'Hand off as quote', disabled: false }).click();
      await card.getByText(/Quote awaiting approval/).waitFor();
    }
    await goTo(page, 'Waiting');
    const rows = page.getByRole('row').filter({ hasText: 'awaiting approval' });
    await rows.nth(1).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
    await rows.first().getByRole('button', { name: 'Withdraw…' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();

    await signIn(page, gateway.console);
    await goTo(page, 'Waiting');
    await rows.nth(1).getByText('Details').click();
    await rows
      .nth(1)
      .getByRole('region', { name: /Details of Hotel Alameda/ })
      .waitFor();
    await textOf(rows.nth(1), /Hotel Alameda[^]*hotelbeds/);
    await check('approvals');
    await rows.nth(1).getByRole('button', { name: 'Approve' }).click();
    await rows.nth(1).waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: 'created' }).first().waitFor();
    await rows.first().getByRole('button', { name: 'Reject' }).click();
    await page.getByLabel('Reason').fill('Too dear');
    await check('a rejection');
    await page.getByRole('button', { name: 'Reject now' }).click();
    await textOf(page.getByRole('row').filter({ hasText: 'rejected' }), /Too dear/);
    await close();
  });

  test('sends when an offer ends, and says so where it has', async () => {
    const { page, close } = await browser.open(address());
    await signIn(page, gateway.console);
    await page.getByRole('button', { name: 'Load results…' }).click();
    const details = { expires_at: '2026-01-01T00:00:00+01:00' };
    const results = [
      { name: 'Late', source: 'x', details },
      { name: 'In time', source: 'x', details, valid_until: '2099-01-01T00:00:00Z' },
    ];
    await page.getByLabel('Paste JSON').fill(JSON.stringify(results));
    await page.getByRole('button', { name: 'Use results' }).click();
    const late = page.getByRole('article', { name: 'Late' });
    await late.getByText(/This offer expired/).waitFor();
    assert.equal(await late.getByRole('button').count(), 0);
    const inTime = page.getByRole('article', { name: 'In time' });
    await inTime.getByText(/The offer ends/).waitFor();
    await chooseMember(page);
    await inTime.getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /Quote created/);
    await close();
  });

  test('makes a webhook endpoint, shows its secret once, and sends it a test', async (context) => {
    const receiver = await startWebhookReceiver();
    context.after(() => receiver.stop());
    const { page, check, close } = await browser.open(address());
    await signIn(page, gateway.admin);
    await goTo(page, 'Events');
    await page.getByRole('link', { name: 'Webhook endpoints' }).click();
    await page.getByLabel('Address').fill(`${receiver.url}/hooks`);
    await page.getByRole('button', { name: 'Create endpoint' }).click();
    assert.match((await page.getByRole('definition').textContent()) ?? '', /^whsec_/);
    await page.getByRole('button', { name: "I've stored it" }).click();
    await page.getByRole('button', { name: 'Send a test' }).click();
    await textOf(page.getByRole('row').filter({ hasText: '/hooks' }), /Test delivered: 204/);
    await page.getByRole('link', { name: '/hooks' }).click();
    const row = page.getByRole('row').filter({ hasText: 'ping' });
    await row.getByText('delivered').waitFor();
    // The endpoint takes all events: those of what was made before may come in now.
    assert.equal(receiver.received.filter(({ event }) => event.type === 'ping').length, 1);
    await row.getByText('Show').click();
    await textOf(row.getByRole('region', { name: 'ping body' }), /"type": "ping"/);
    await row.getByRole('button', { name: 'Resend' }).click();
    await row.getByRole('listitem').nth(1).waitFor();
    await check('deliveries');
    await close();
  });

  test('works with the keyboard alone', async () => {
    const { page, close } = await browser.open(address());
    await page.getByLabel('API key').and(page.locator(':focus')).waitFor();
    await page.keyboard.type(gateway.console.apiKey);
    await page.keyboard.press('Tab');
    await page.keyboard.type(gateway.console.apiSecret);
    await page.keyboard.press('Enter');
    const button = page
      .getByRole('article')
      .first()
      .getByRole('button', { name: 'Hand off as booking', disabled: false });
    await button.waitFor();
    const tabTo = async (element: Locator) => {
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press('Tab');
        if (await element.evaluate((one) => one === one.ownerDocument.activeElement)) break;
      }
    };
    await tabTo(page.getByRole('combobox', { name: 'Member' }));
    await page.keyboard.press('ArrowDown');
    await page.getByRole('option').first().waitFor();
    await page.keyboard.press('Enter');
    await tabTo(button);
    await page.keyboard.press('Enter');
    await textOf(page.getByRole('status'), /Booking created/);
    const again = page.getByRole('button', { name: 'Hand off again…' });
    await again.and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await again.and(page.locator(':focus')).waitFor();
    await close();
  });

  test('has no fault that axe finds on any page, light or dark, wide or narrow', async () => {
    const { page, check, close } = await browser.open(address());
    await page.getByLabel('API key').waitFor();
    await check('sign-in');
    await signIn(page, gateway.admin);
    await chooseMember(page);
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /created/);
    await check('hand-off');
    const names = await page.getByRole('navigation').getByRole('link').allTextContents();
    for (const name of names.filter((one) => one !== 'Hand-off')) {
      await goTo(page, name);
      await page
        .getByText(/^Updated /)
        .first()
        .waitFor();
      await check(name.toLowerCase());
    }
    await close();
  });
});
