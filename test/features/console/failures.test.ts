import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { accept, untilHandoff } from '../../support/handoffs.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';
import { chooseMember, goTo, openSignedIn, signIn, textOf } from './pages.ts';

describe('what operators do in a browser, and what can go wrong', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });
  const open = (as: Credentials) => openSignedIn(browser, gateway, as);
  const consumer = async (id: string) =>
    (await (await gateway.request(`/v1/admin/consumers/${id}`, { as: gateway.admin })).json()) as Record<
      string,
      unknown
    >;

  test('shows the new secret to operators who end their own pair at once', async () => {
    const own = await gateway.newConsumer({ resource: 'consumers', actions: ['read', 'write'] });
    const { page, close } = await open(own);
    await goTo(page, 'Consumers');
    const row = page.getByRole('row').filter({ hasText: own.id });
    await row.getByRole('button', { name: 'Rotate' }).click();
    await page.getByLabel('Grace window (hours)').fill('0');
    await page.getByRole('button', { name: 'Rotate now' }).click();
    const stored = page.getByRole('button', { name: "I've stored it" });
    await page.getByText('The old key no longer works').waitFor();
    const [apiKey = '', apiSecret = ''] = await page.getByRole('definition').allTextContents();
    await stored.click();
    await textOf(page.getByRole('alert'), /You were signed out/);
    await signIn(page, { apiKey, apiSecret });
    await goTo(page, 'Consumers');
    await close();
  });

  test('takes a double click for one', async () => {
    const other = await gateway.newConsumer({ resource: 'members', actions: ['read'] });
    const { page, close } = await open(gateway.admin);
    await goTo(page, 'Consumers');
    const row = page.getByRole('row').filter({ hasText: other.id });
    await row.getByRole('button', { name: 'Disable…' }).dblclick();
    await page.getByRole('button', { name: 'Disable now' }).waitFor();
    assert.equal((await consumer(other.id))['enabled'], true);
    await page.getByRole('button', { name: 'Disable now' }).dblclick();
    await row.getByRole('button', { name: 'Enable' }).waitFor();
    assert.equal((await consumer(other.id))['enabled'], false);
    const body = { url: 'http://127.0.0.1:9999/twice' };
    const made = await gateway.request('/v1/webhook-endpoints', { body, as: gateway.admin });
    await goTo(page, 'Events');
    await page.getByRole('link', { name: 'Webhook endpoints' }).click();
    const endpoint = page.getByRole('row').filter({ hasText: body.url });
    await endpoint.getByRole('button', { name: 'Delete' }).dblclick();
    await endpoint.getByRole('button', { name: 'Delete now' }).waitFor();
    const path = made.headers.get('location') ?? '';
    assert.equal((await gateway.request(path, { as: gateway.admin })).status, 200);
    await endpoint.getByRole('button', { name: 'Delete now' }).click();
    await endpoint.waitFor({ state: 'detached' });
    await close();
  });

  test('changes the limits of a consumer, and nothing that was left as it is', async () => {
    const { id } = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const path = `/v1/admin/consumers/${id}`;
    const validUntil = new Date(Date.now() + 3_600_000).toISOString();
    await gateway.request(path, { method: 'PATCH', body: { validUntil }, as: gateway.admin });
    const { page, close } = await open(gateway.admin);
    await page.evaluate(`location.hash = '#/consumers/${id}'`);
    const edit = page.getByRole('button', { name: 'Edit…' });
    const access = page.getByRole('region', { name: 'Access', exact: true });
    await edit.click();
    await page.getByRole('textbox', { name: 'Name' }).and(page.locator(':focus')).waitFor();
    await page.getByLabel('Requests per minute').fill('120');
    await page.getByLabel('Allowed addresses').fill('127.0.0.0/8\n2001:db8::1');
    await page.getByRole('checkbox', { name: 'only its own quotes' }).check();
    await page.getByRole('button', { name: 'Save changes' }).click();
    await access.getByText('120', { exact: true }).waitFor();
    const changed = await consumer(id);
    assert.equal(changed['validUntil'], validUntil);
    assert.equal(changed['rateLimitPerMinute'], 120);
    assert.deepEqual(changed['allowedAddresses'], ['127.0.0.0/8', '2001:db8::1']);
    assert.deepEqual(changed['permissions'], [{ resource: 'quotes', actions: ['read'], records: 'own' }]);
    await edit.click();
    for (const name of ['Valid until', 'Requests per minute', 'Allowed addresses'])
      await page.getByLabel(name).fill('');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await access.getByText('120', { exact: true }).waitFor({ state: 'detached' });
    const cleared = await consumer(id);
    assert.deepEqual([cleared['validUntil'], cleared['rateLimitPerMinute']], [null, null]);
    assert.deepEqual(cleared['allowedAddresses'], []);
    await edit.click();
    await page.getByLabel('Allowed addresses').fill('somewhere');
    await page.getByRole('button', { name: 'Save changes' }).click();
    const addresses = page.getByLabel('Allowed addresses');
    await page.getByText(/^“somewhere” .*\.$/).waitFor();
    assert.equal(await addresses.getAttribute('aria-invalid'), 'true');
    assert.equal(await page.getByRole('alert').count(), 0);
    await page.keyboard.press('Escape');
    await goTo(page, 'Access log');
    await page.getByRole('link', { name: 'Changes' }).click();
    for (const change of ['requests per minute default → 120', 'requests per minute 120 → default'])
      await page.getByRole('listitem').filter({ hasText: change }).first().waitFor();
    await close();
  });

  test('retries a hand-off that failed, and cancels one that waits', async (context) => {
    context.after(() => gateway.org.disarm());
    const member_id = randomUUID();
    const failed = await accept(gateway, { member_id });
    const { page, close } = await open(gateway.console);
    await goTo(page, 'Waiting');
    const row = page.getByRole('row').filter({ hasText: failed });
    await row.getByText('failed', { exact: true }).waitFor();
    await gateway.org.insert('Contact', [{ External_Id__c: member_id, LastName: 'Late' }]);
    await row.getByRole('button', { name: 'Retry' }).click();
    await row.getByText('created', { exact: true }).waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    const waiting = page.getByRole('row').filter({ hasText: await accept(gateway) });
    await waiting.getByRole('button', { name: 'Withdraw…' }).click();
    await page.getByRole('button', { name: 'Withdraw now' }).click();
    await waiting.getByText('cancelled', { exact: true }).waitFor();
    assert.equal(await waiting.getByRole('button').count(), 0);
    await gateway.org.disarm();
    await untilHandoff(gateway, await accept(gateway));
    await close();
  });

  test('sends again what an endpoint missed, and gives it a new secret', async (context) => {
    const receiver = await startWebhookReceiver();
    context.after(() => receiver.stop());
    receiver.answer = (response) => response.writeHead(500).end();
    const body = { url: `${receiver.url}/hooks`, event_types: ['quote.*'] };
    const made = await gateway.request('/v1/webhook-endpoints', { body, as: gateway.admin });
    const { secret } = (await made.json()) as { secret: string };
    const { page, close } = await open(gateway.admin);
    await chooseMember(page);
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /created/);
    await receiver.until(1);
    await goTo(page, 'Events');
    await page.getByRole('link', { name: 'Webhook endpoints' }).click();
    await page.getByRole('link', { name: body.url }).click();
    const row = page.getByRole('row').filter({ hasText: 'quote.created' });
    await row.getByText('HTTP 500').first().waitFor();
    receiver.answer = (response) => response.writeHead(204).end();
    await page.getByLabel('Resend undelivered events since').fill('2020-01-01T00:00');
    await page.getByRole('button', { name: 'Resend events' }).click();
    await row.getByText('delivered', { exact: true }).first().waitFor();
    await page.getByRole('link', { name: 'Back to endpoints' }).click();
    await page
      .getByRole('row')
      .filter({ hasText: body.url })
      .getByRole('button', { name: 'Rotate secret' })
      .click();
    await page.getByRole('button', { name: 'Rotate now' }).click();
    const shown = await textOf(page.getByRole('definition'), /^whsec_/);
    assert.notEqual(shown, secret);
    await page.getByRole('button', { name: "I've stored it" }).click();
    await page.getByRole('row').filter({ hasText: body.url }).waitFor();
    await close();
  });

  test('reads the next page once, however often it is asked for', async () => {
    const many = Array.from({ length: 60 }, () => ({ External_Id__c: randomUUID(), LastName: 'Many' }));
    await gateway.org.insert('Contact', many);
    const { page, close } = await open(gateway.console);
    await goTo(page, 'Records');
    await page.getByRole('link', { name: 'Members' }).click();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.getByRole('button', { name: 'Show more' }).waitFor();
    await page.evaluate(`for (const _ of [1, 2]) document.querySelector('.scroll ~ button').click()`);
    // Fifty of the first page stand below the head.
    await page.getByRole('row').nth(51).waitFor();
    assert.equal(asked.filter((url) => url.includes('cursor=')).length, 1);
    await close();
  });

  test('takes no answer of something in between for a final one', async () => {
    const { page, close } = await open(gateway.console);
    const keys = new Set<string | undefined>();
    await page.route('**/api/v1/handoff', (route) => {
      keys.add(route.request().headers()['idempotency-key']);
      return keys.size === 1 && sent++ === 0
        ? route.fulfill({ status: 502, contentType: 'application/json', body: '{"message":"Bad gateway"}' })
        : route.continue();
    });
    let sent = 0;
    await chooseMember(page);
    const card = page.getByRole('article').first();
    await card.getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(card.getByRole('alert'), /The gateway answered 502/);
    await page.reload();
    await signIn(page, gateway.console);
    await page.getByRole('button', { name: 'Try again' }).click();
    await textOf(page.getByRole('status'), /Quote created/);
    assert.equal(keys.size, 1);
    await close();
  });

  test('shows long and hostile texts as texts, without pushing anything aside', async () => {
    const name = 'W'.repeat(200);
    const permissions = [{ resource: 'members', actions: ['read'] }];
    const body = { name: '<img src=x onerror=alert(1)>', permissions };
    await gateway.request('/v1/admin/consumers', { body, as: gateway.admin, headers: { 'x-actor': name } });
    const result = { name, source: name, details: { [name]: body.name } };
    await untilHandoff(gateway, await accept(gateway, { result }));
    const { page, close } = await open(gateway.admin);
    await page.getByRole('article').first().waitFor();
    const widths = () =>
      page.evaluate<number[]>(
        `[document.documentElement, ...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)`,
      );
    for (const width of [375, 1440]) {
      await page.setViewportSize({ width, height: 800 });
      await goTo(page, 'Records');
      await page.getByRole('link', { name: 'Quotes' }).click();
      const link = page.getByRole('row').getByRole('link', { name });
      await link.waitFor();
      assert.deepEqual(await widths(), [0, 0]);
      await link.click();
      await page.getByRole('region', { name: 'details' }).waitFor();
      assert.deepEqual(await widths(), [0]);
      await goTo(page, 'Consumers');
      await page.getByText(body.name).waitFor();
      assert.deepEqual(await widths(), [0, 0]);
      await goTo(page, 'Access log');
      await page.getByRole('link', { name: 'Changes' }).click();
      await page.getByText(name).first().waitFor();
      assert.deepEqual(await widths(), [0, 0]);
    }
    await close();
  });

  test('shows the samples at once, and hands off while the members cannot be read', async () => {
    const reading = await gateway.org.arm({
      match: { object: 'Contact', operation: 'query' },
      effect: { kind: 'hold', stage: 'before' },
    });
    const { page, close } = await open(gateway.console);
    await reading.hit();
    const card = page.getByRole('article').first();
    const button = card.getByRole('button', { name: 'Hand off as quote' });
    await button.waitFor();
    assert.ok(await button.isDisabled());
    await reading.remove();
    await card.getByRole('button', { name: 'Hand off as quote', disabled: false }).waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await page.reload();
    await signIn(page, gateway.console);
    await page.getByRole('textbox', { name: 'Member' }).fill(gateway.org.memberId);
    await button.click();
    await textOf(card.getByRole('status'), /Quote accepted/);
    await gateway.org.disarm();
    await textOf(card.getByRole('status'), /Quote created/);
    await page.getByRole('combobox', { name: 'Member' }).waitFor();
    await close();
  });

  test('leads nobody to a page that they may not see', async () => {
    const writer = await gateway.newConsumer({ resource: 'quotes', actions: ['write'] });
    const { page, close } = await open(writer);
    await page.getByRole('textbox', { name: 'Member' }).fill(gateway.org.memberId);
    await page.route('**/api/v1/handoff', (route) =>
      route.continue({ headers: { ...route.request().headers(), prefer: 'respond-async' } }),
    );
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /Quote accepted/);
    assert.equal(await page.getByRole('status').getByRole('link').count(), 0);
    assert.deepEqual(await page.getByRole('navigation').getByRole('link').allTextContents(), [
      'Hand-off',
      'Health',
      'My access',
    ]);
    // Nor to the record, where it has no address in the CRM.
    const json = { environment: 'test', version: '1', record_url: null };
    await page.route('**/console/settings', (route) => route.fulfill({ json }));
    await page.unroute('**/api/v1/handoff');
    await page.reload();
    await signIn(page, writer);
    await page.getByRole('textbox', { name: 'Member' }).fill(gateway.org.memberId);
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(page.getByRole('status'), /Quote created/);
    assert.equal(await page.getByRole('status').getByRole('link').count(), 0);
    await close();
  });
});
