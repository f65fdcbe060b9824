import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { type Credentials, type TestGateway, useGateway } from '../../support/gateway.ts';
import { accept } from '../../support/handoffs.ts';
import { goTo, openSignedIn } from './pages.ts';

type Permission = Parameters<TestGateway['newConsumer']>[0];

describe('what the console offers to a consumer', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });
  const open = (as: Credentials, hash?: string) => openSignedIn(browser, gateway, as, hash);

  /** Addresses of this console that the page shown now leads to, once nothing is being loaded. */
  const linksOn = async (page: Page): Promise<string[]> => {
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.waitForLoadState('networkidle');
    return page
      .locator('a[href^="#/"]')
      .evaluateAll((links) =>
        links.map((link) => (link as unknown as { getAttribute(name: string): string }).getAttribute('href')),
      );
  };

  const alone: Permission[] = [
    ...(['quotes', 'members', 'webhooks', 'consumers'] as const).map((resource) => ({
      resource,
      actions: ['read' as const],
    })),
    { resource: 'quotes', actions: ['write'] },
  ];
  for (const permission of alone)
    test(`with nothing but ${permission.resource}:${permission.actions.join()} leads to no page that it may not see`, async () => {
      await accept(gateway);
      const { page, close } = await open(await gateway.newConsumer(permission));
      const seen = new Set<string>();
      let waiting = await linksOn(page);
      while (waiting.length > 0) {
        const [link = ''] = waiting;
        seen.add(link);
        await page.evaluate(`location.hash = ${JSON.stringify(link)}`);
        const found = await linksOn(page);
        const heading = await page.getByRole('heading', { level: 1 }).first().textContent();
        assert.ok(!/No access|not found/.test(heading ?? ''), `${link}: ${heading}`);
        // One record of a kind is enough.
        const kindOf = (address: string) => address.replace(/[0-9a-f]{8}-[0-9a-f-]{27}.*/, '');
        const kinds = new Set([...seen].map(kindOf));
        waiting = [...waiting, ...found].filter((one) => !seen.has(one) && !kinds.has(kindOf(one)));
      }
      assert.ok(seen.has('#/my-access'));
      await close();
    });

  test('has no button on hand-offs of others that its need of approval forbids', async () => {
    const needing: Permission = { resource: 'quotes', actions: ['read', 'write', 'delete'], approval: true };
    const agent = await gateway.newConsumer(needing);
    const own = await accept(gateway, {}, { as: agent });
    const failed = await accept(gateway, { member_id: 'b6f1c1de-4d4f-4fd5-8a1c-6dc7cd4d2a40' });
    const foreign = await accept(gateway, {}, { as: await gateway.newConsumer(needing) });
    const { page, close } = await open(agent);
    await goTo(page, 'Waiting');
    const buttonsOf = async (id: string, text: string) => {
      const row = page.getByRole('row').filter({ hasText: id }).filter({ hasText: text });
      await row.waitFor();
      return row.getByRole('button').allTextContents();
    };
    assert.deepEqual(await buttonsOf(own, 'awaiting approval'), ['Withdraw…']);
    assert.deepEqual(await buttonsOf(foreign, 'awaiting approval'), []);
    assert.deepEqual(await buttonsOf(failed, 'failed'), []);
    await close();
  });

  test('shows to who decides what turns the direction of a text, and keeps texts apart', async () => {
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const result = { name: 'Suite \u202e00.0001', source: 'אבג', details: { 'to\u2067': '\u200fpay' } };
    const id = await accept(gateway, { result }, { as: agent, headers: { 'x-actor': 'ana@example.com' } });
    const { page, close } = await open(gateway.console);
    await goTo(page, 'Waiting');
    const row = page.getByRole('row').filter({ hasText: id });
    await row.getByText('Suite \\u202e00.0001').waitFor();
    assert.equal(await row.locator('bdi').first().textContent(), 'אבג');
    await row.getByText('Details').click();
    const details = row.getByRole('region', { name: 'Details of Suite \\u202e00.0001' });
    await details.getByText('"to\\u2067": "\\u200fpay"').waitFor();
    await row.getByRole('button', { name: 'Approve' }).click();
    await page.getByRole('link', { name: 'Suite \\u202e00.0001' }).click();
    // The list beside it has such links too, until the page has changed.
    const overview = page.getByRole('region', { name: 'Overview' });
    await overview.getByRole('link', { name: 'Show the quote' }).click();
    await page.getByRole('link', { name: 'Quotes' }).waitFor();
    await page.getByRole('heading', { level: 1, name: 'Suite \\u202e00.0001' }).waitFor();
    const shown = await page.evaluate<string>('document.title + document.documentElement.outerHTML');
    assert.doesNotMatch(shown, /\p{Bidi_Control}/u);
    await close();
  });
});
