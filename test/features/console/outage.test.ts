import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { useGateway } from '../../support/gateway.ts';
import { chooseMember, goTo, openSignedIn, signIn, textOf } from './pages.ts';

describe('the console while something does not answer', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();
  let quote: string;
  before(async () => {
    const result = { name: 'Hotel Miramar', source: 'x', details: {} };
    const body = { type: 'quote', trip_id: crypto.randomUUID(), member_id: gateway.org.memberId, result };
    const made = await gateway.request('/api/v1/handoff', { body });
    assert.equal(made.status, 201);
    quote = ((await made.json()) as { external_id: string }).external_id;
  });
  const strip = (page: Page, text: string) => page.getByRole('status').filter({ hasText: text });

  test('says on every page that the CRM is away, and notices by itself when it is back', async (context) => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, '#/waiting');
    await page.getByRole('heading', { level: 1, name: 'Waiting' }).waitFor();
    assert.equal(await strip(page, 'responding').count(), 0);
    await goTo(page, 'Hand-off');
    await chooseMember(page);
    const chosen = await page.getByRole('combobox', { name: 'Member' }).inputValue();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    context.after(() => gateway.org.disarm());
    await goTo(page, 'Records');
    await textOf(strip(page, 'responding'), /Salesforce isn't responding.*Trying again in \d+ seconds?\./);
    await check('an outage');
    for (const name of ['Waiting', 'Consumers', 'Health', 'Hand-off']) {
      await goTo(page, name);
      await strip(page, 'responding').waitFor();
    }
    assert.equal(await page.getByRole('combobox', { name: 'Member' }).inputValue(), chosen);
    await goTo(page, 'Records');
    await page.getByText('Not available right now.').waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    await gateway.org.disarm();
    await strip(page, 'responding').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Hotel Miramar' }).first().waitFor();
    assert.equal(await page.getByText('Not available right now.').count(), 0);
    await close();
  });

  test('says that the CRM refuses the sign-in', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.console);
    await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
    await page.route('**/v1/healthz', async (route) => {
      const health = (await (await route.fetch()).json()) as { crm: object };
      return route.fulfill({ json: { ...health, crm: { connected: false, reason: 'sign_in' } } });
    });
    await page.reload();
    await signIn(page, gateway.console);
    await strip(page, "Salesforce refuses the gateway's sign-in.").waitFor();
    await close();
  });

  test('tells one error on a page where two parts fail, none where the strip does, and reads all of them again', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin, `#/records/quotes/${quote}`);
    await page.getByRole('heading', { level: 1, name: 'Hotel Miramar' }).waitFor();
    const own = '**/v1/quotes/**';
    await page.route(own, (route) => route.fulfill({ status: 503, body: 'none' }));
    await page.getByRole('button', { name: 'Refresh' }).click();
    await strip(page, "Part of the gateway isn't responding.").waitFor();
    await page.evaluate(`location.hash = '#/waiting'`);
    await page.evaluate(`location.hash = '#/records/quotes/${quote}'`);
    await page.getByText('Not available right now.').waitFor();
    assert.equal(await page.getByRole('alert').count(), 1);
    await page.unroute(own);
    const answers = '**/v1/**';
    await page.route(answers, (route) => route.fulfill({ status: 503, body: 'none' }));
    for (const address of [`#/records/quotes/${quote}`, '#/my-access', '#/health']) {
      await page.evaluate(`location.hash = '#/waiting'`);
      await page.getByRole('heading', { level: 1, name: 'Waiting' }).waitFor();
      await page.evaluate(`location.hash = '${address}'`);
      await strip(page, "The gateway isn't responding.").waitFor();
      await page.getByText('Not available right now.').first().waitFor();
      await eventually(async () => assert.equal(await page.getByRole('alert').count(), 0, address));
    }
    await page.unroute(answers);
    await page.getByRole('button', { name: 'Try now' }).click();
    await strip(page, 'responding').waitFor({ state: 'detached' });
    await eventually(async () => assert.equal(await page.getByText('Not available right now.').count(), 0));
    await close();
  });
});
