import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { accept, untilHandoff } from '../../support/handoffs.ts';
import { openSignedIn, textOf } from './pages.ts';

describe('the events in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });

  const result = (name: string) => ({
    name,
    source: 'Example Stays',
    details: { hotel: name, checkIn: '2030-05-04', totalPrice: { amount: '1204.50', currency: 'EUR' } },
  });
  /** A hand-off whose consumer needs approval. */
  const ask = async (name: string) => {
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    return accept(gateway, { member_id: gateway.org.memberId, result: result(name) }, { as: agent });
  };

  test('name the record, its member and its amount, those of hand-offs too', async () => {
    const id = await accept(gateway, { member_id: gateway.org.memberId, result: result('Casa Made') });
    await untilHandoff(gateway, id);
    const asked = await ask('Casa Asked');
    const lost = await accept(gateway, { member_id: randomUUID(), result: result('Casa Lost') });
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.console, '#/events');
    const member = await (await gateway.request(`/v1/members/${gateway.org.memberId}`)).json();
    const { first_name, last_name } = member as Record<string, string>;
    const rowOf = (type: string, name: string) =>
      page.getByRole('row').filter({ hasText: type }).filter({ hasText: name });
    const whole = new RegExp(`hotel.*4 May 2030.*${first_name} ${last_name}.*1,204\\.50 EUR`, 's');
    for (const [type, name, address] of [
      ['quote.created', 'Casa Made', `#/records/quotes/${id}`],
      ['handoff.created', 'Casa Made', `#/records/quotes/${id}`],
      ['handoff.awaiting_approval', 'Casa Asked', `#/handoffs/${asked}`],
    ] as const) {
      await textOf(rowOf(type, name), whole);
      assert.equal(await rowOf(type, name).getByRole('link', { name }).getAttribute('href'), address);
    }
    await textOf(rowOf('handoff.failed', 'Casa Lost'), /1,204\.50 EUR/);
    await check('events');
    await rowOf('handoff.failed', 'Casa Lost').getByRole('link', { name: 'Casa Lost' }).click();
    await page.getByRole('heading', { level: 1, name: 'Casa Lost' }).waitFor();
    assert.equal(await page.evaluate('location.hash'), `#/handoffs/${lost}`);
    await close();
  });

  test('keep their filters and their order in the address', async () => {
    await ask('Casa First');
    const last = await ask('Casa Last');
    const { page, close } = await openSignedIn(browser, gateway, gateway.console, '#/events');
    const rows = page.getByRole('table').getByRole('row');
    await page.getByLabel('Event', { exact: true }).selectOption('handoff.awaiting_approval');
    await textOf(rows.nth(1), /Casa Last/);
    await page.getByLabel('Order').selectOption('Oldest first');
    await textOf(rows.last(), /Casa Last/);
    assert.equal(
      await page.evaluate('location.hash'),
      '#/events?type=handoff.awaiting_approval&order=oldest_first',
    );
    await page.getByLabel('Record ID').fill(last);
    await page.getByRole('button', { name: 'Filter' }).click();
    await rows.nth(2).waitFor({ state: 'detached' });
    await textOf(rows.nth(1), /Casa Last/);
    await page.goBack();
    await textOf(rows.nth(2), /handoff\.awaiting_approval/);
    assert.equal(await page.getByLabel('Record ID').inputValue(), '');
    await page.goBack();
    await textOf(rows.nth(1), /Casa Last/);
    assert.equal(await page.getByLabel('Order').inputValue(), '');
    await close();
  });
});
