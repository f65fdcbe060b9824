import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { startGateway, type TestGateway, useGateway } from '../../support/gateway.ts';
import { goTo, openSignedIn, textOf } from './pages.ts';

const path = '/v1/admin/break-it';

describe('breaking what is simulated', () => {
  const gateway = useGateway();

  const ask = async (method: string, name = '', as: TestGateway['admin'] = gateway.admin) => {
    const response = await gateway.request(`${path}${name && `/${name}`}`, { method, as });
    const body = (await response.json()) as {
      data: { name: string; ends_at: string | null }[];
      detail: string;
    };
    return { status: response.status, ...body };
  };

  test('takes an administrator of live consumers, and knows what can be broken', async () => {
    assert.equal((await ask('GET', '', gateway.console)).status, 403);
    assert.equal((await ask('POST', 'salesforce_away', gateway.console)).status, 403);
    const made = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: {
        name: 'tester',
        mode: 'test',
        permissions: [{ resource: 'consumers', actions: ['read', 'write'] }],
      },
    });
    const { id, apiKey, apiSecret } = (await made.json()) as TestGateway['admin'];
    assert.equal((await ask('POST', 'salesforce_away', { id, apiKey, apiSecret })).status, 404);
    const { status, detail } = await ask('POST', 'nothing');
    assert.equal(status, 404);
    assert.match(detail, /Choose one of salesforce_away, .*dining_away/);
    assert.ok((await ask('GET')).data.every(({ ends_at }) => ends_at === null));
  });

  test("calls Salesforce by the operator's name for it", async (context) => {
    const named = await startGateway({ CRM_NAME: 'TripForce' });
    context.after(() => named.stop());
    const response = await named.request(path, { as: named.admin });
    const { data } = (await response.json()) as { data: { title: string; watch: string }[] };
    const texts = JSON.stringify(data.map(({ title, watch }) => [title, watch]));
    assert.match(texts, /TripForce is down/);
    assert.doesNotMatch(texts, /Salesforce/);
  });

  test('breaks for five minutes, one after the other, and fixes one or all', async () => {
    const brokenOf = ({ data }: Awaited<ReturnType<typeof ask>>) =>
      data.filter(({ ends_at }) => ends_at !== null).map(({ name }) => name);
    const { data } = await ask('GET');
    for (const { name } of data) {
      const answer = await ask('POST', name);
      const { ends_at } = answer.data.find((one) => one.name === name) ?? {};
      const ms = Date.parse(ends_at ?? '') - Date.now();
      assert.ok(ms > 0 && ms <= 300_000, `${name} ends in ${ms} ms`);
    }
    assert.deepEqual(
      brokenOf(await ask('GET')),
      data.map(({ name }) => name),
    );
    assert.equal(brokenOf(await ask('POST', 'dining_away')).length, data.length);
    assert.ok(!brokenOf(await ask('DELETE', 'dining_away')).includes('dining_away'));
    assert.deepEqual(brokenOf(await ask('DELETE')), []);
  });

  test('leaves alone what others have armed', async () => {
    const fault = await gateway.org.arm({ match: { path: '/nowhere' }, effect: { kind: 'hang' } });
    await ask('POST', 'answers_lost');
    await ask('DELETE');
    await fault.remove();
  });
});

describe('the page Break it', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();
  const strip = (page: Page) => page.getByRole('status').filter({ hasText: "Salesforce isn't responding" });

  test('makes an outage at a click: what is handed off waits, and is created once all is fixed', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, '#/break-it');
    await page.getByRole('heading', { level: 1, name: 'Break it' }).waitFor();
    await page.getByRole('button', { name: 'Break: Salesforce is down' }).click();
    await strip(page).waitFor();
    const fix = page.getByRole('button', { name: 'Fix: Salesforce is down' });
    await fix.waitFor();
    assert.ok(await fix.evaluate((button) => button === button.ownerDocument.activeElement));
    await textOf(page.getByRole('listitem'), /Salesforce is down.*Clears itself/s);
    await check('break-it');
    const body = {
      ...{ type: 'quote', trip_id: crypto.randomUUID(), member_id: gateway.org.memberId },
      result: { name: 'Hotel Miramar', source: 'x', details: {} },
    };
    const headers = { prefer: 'respond-async', 'idempotency-key': crypto.randomUUID() };
    const made = await gateway.request('/api/v1/handoff', { as: gateway.admin, headers, body });
    assert.equal(made.status, 202);
    const { external_id: id } = (await made.json()) as { external_id: string };
    await goTo(page, 'Waiting');
    await page.getByText('Hotel Miramar').first().waitFor();
    await goTo(page, 'Break it');
    await page.getByRole('button', { name: 'Fix all' }).click();
    await page.getByRole('button', { name: 'Break: Salesforce is down' }).waitFor();
    await strip(page).waitFor({ state: 'detached' });
    await eventually(async () => {
      const [record] = await gateway.org.records('Quote__c', { External_Id__c: id });
      assert.equal(record?.['Name__c'], 'Hotel Miramar');
    });
    await close();
  });

  test('says on Health and in the strip that the quota is used up', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin, '#/break-it');
    await page.getByRole('button', { name: 'Break: The API quota is used up' }).click();
    await page.getByRole('status').filter({ hasText: 'call quota is used up' }).waitFor();
    await goTo(page, 'Health');
    await page.getByText('Quota used up: Salesforce').waitFor();
    assert.equal(await page.getByText('All systems operational').count(), 0);
    await goTo(page, 'Break it');
    await page.getByRole('button', { name: 'Fix all' }).click();
    await page.getByRole('button', { name: 'Break: The API quota is used up' }).waitFor();
    await close();
  });

  test('is not there for advisors, and not where people could not use it', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.console);
    const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    await links.filter({ hasText: 'Hand-off' }).waitFor();
    assert.equal(await links.filter({ hasText: 'Break it' }).count(), 0);
    await close();
  });
});
