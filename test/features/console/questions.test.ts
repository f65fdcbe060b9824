import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { accept } from '../../support/handoffs.ts';
import { goTo, openSignedIn, textOf } from './pages.ts';

describe('what the console asks before it acts, and where the keyboard is afterwards', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });
  before(async () => {
    const body = { url: 'http://127.0.0.1:9999/hooks' };
    const made = await gateway.request('/v1/webhook-endpoints', { body, as: gateway.admin });
    assert.equal(made.status, 201);
  });

  /** Hand-offs that wait for the approval of another consumer. */
  const wait = async (...names: string[]) => {
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    for (const name of names) {
      const result = { name, source: 'x', details: {} };
      await accept(gateway, { member_id: gateway.org.memberId, result }, { as: agent });
    }
  };
  const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });
  /** Where the keyboard is, in words; `BODY` for nowhere. */
  const focus = (page: Page) =>
    page.evaluate<string>(
      `(({ tagName, id, textContent, ariaLabel }) => tagName === 'BODY' ? 'BODY' : ariaLabel || (id || textContent).trim())(document.activeElement)`,
    );
  const isFocused = (element: Locator) => element.and(element.page().locator(':focus')).waitFor();

  test('no button deletes, withdraws or rotates at one click or with a key that is held; Escape closes its question, and the focus returns', async () => {
    await wait('Never decided');
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin);
    const written: string[] = [];
    page.on('request', (request) => {
      if (request.method() !== 'GET') written.push(request.url());
    });
    const pages = [
      ['Waiting', undefined, ['Reject…', 'Withdraw…']],
      ['Consumers', 'admin', ['Revoke…', 'Rotate…']],
      ['Events', 'Webhook endpoints', ['Delete…', 'Rotate secret…']],
      ['My access', undefined, ['Rotate my key…']],
    ] as const;
    for (const [name, tab, expected] of pages) {
      await goTo(page, name);
      if (tab) await page.getByRole('main').getByRole('link', { name: tab }).click();
      const found = page.getByRole('main').getByRole('button', {
        name: /\b(cancel|delete|forget|reject|remove|revoke|rotate|withdraw)/i,
      });
      await found.filter({ hasText: expected[0] }).first().waitFor();
      const names = new Set(await found.allTextContents());
      assert.deepEqual([...names].toSorted(), [...expected]);
      for (const text of names) {
        const button = found.filter({ hasText: text }).first();
        const dialog = page.getByRole('dialog');
        const hold = async () => {
          await page.keyboard.down('Enter');
          await dialog.waitFor();
          await page.keyboard.down('Enter');
          await page.keyboard.up('Enter');
        };
        for (const open of [() => button.click(), hold]) {
          await open();
          await dialog.waitFor();
          await page.keyboard.press('Escape');
          await dialog.waitFor({ state: 'detached' });
          await isFocused(button);
        }
      }
    }
    assert.deepEqual(written, []);
    await close();
  });

  test('a question that fails says why where it was asked, and loses nothing that was typed', async () => {
    await wait('Refused in vain');
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin);
    await goTo(page, 'Waiting');
    const row = rowOf(page, 'Refused in vain');
    await row.getByRole('button', { name: 'Reject…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Reject Refused in vain?' });
    await dialog.getByLabel('Reason').fill('Too dear');
    await page.route('**/reject', (route) => route.fulfill({ status: 503, body: 'none' }), { times: 1 });
    await page.keyboard.press('Enter');
    await textOf(dialog.getByRole('alert'), /Service Unavailable/);
    assert.equal(await dialog.getByLabel('Reason').inputValue(), 'Too dear');
    await check('a question that failed');
    await dialog.getByRole('button', { name: 'Reject now' }).click();
    await dialog.waitFor({ state: 'detached' });
    await close();
  });

  test('focus after each action is where it was, or around what is gone', async () => {
    await wait('To approve', 'To reject', 'To withdraw');
    const partner = await gateway.newConsumer({ resource: 'members', actions: ['read'] });
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin);
    await goTo(page, 'Waiting');
    await rowOf(page, 'To approve').getByRole('button', { name: 'Approve' }).press('Enter');
    await page.locator('tr[aria-current="true"]:focus').waitFor();
    await textOf(page.locator('[aria-live]'), /Approved To approve/);
    await rowOf(page, 'To approve').getByRole('button', { name: 'Undo' }).waitFor({ state: 'detached' });
    assert.notEqual(await focus(page), 'BODY');
    for (const [name, question] of [
      ['To reject', 'Reject'],
      ['To withdraw', 'Withdraw'],
    ]) {
      await rowOf(page, `${name}`)
        .getByRole('button', { name: `${question}…` })
        .press('Enter');
      await page.getByRole('dialog').waitFor();
      if (question === 'Reject') await page.keyboard.type('Too dear');
      await page.getByRole('button', { name: `${question} now` }).press('Enter');
      await rowOf(page, `${name}`).getByRole('button').first().waitFor({ state: 'detached' });
      assert.notEqual(await focus(page), 'BODY', name);
    }

    await goTo(page, 'Consumers');
    const create = page.getByRole('button', { name: 'New consumer…' });
    await create.press('Enter');
    await page.getByRole('button', { name: 'Cancel' }).press('Enter');
    await isFocused(create);
    const row = rowOf(page, partner.id);
    await row.getByRole('link').press('Enter');
    await isFocused(page.getByRole('heading', { level: 1 }));
    const edit = page.getByRole('button', { name: 'Edit…' });
    await edit.press('Enter');
    await page.getByRole('button', { name: 'Cancel' }).press('Enter');
    await isFocused(edit);
    await edit.press('Enter');
    await page.getByLabel('Requests per minute').fill('120');
    await page.getByRole('button', { name: 'Save changes' }).press('Enter');
    await textOf(page.getByRole('region', { name: 'Access', exact: true }), /Requests per minute120/);
    await isFocused(edit);
    await page.getByRole('button', { name: 'Disable…' }).press('Enter');
    await page.getByRole('button', { name: 'Disable now' }).press('Enter');
    const enable = page.getByRole('button', { name: 'Enable' });
    await isFocused(enable);
    await enable.press('Enter');
    await isFocused(page.getByRole('button', { name: 'Disable…' }));
    await page.getByRole('button', { name: 'Rotate…' }).press('Enter');
    await page.getByRole('button', { name: 'Rotate now' }).press('Enter');
    await isFocused(page.getByRole('heading', { level: 1, name: /'s new credentials$/ }));
    assert.match(await page.title(), /'s new credentials – /);
    await page.getByRole('button', { name: "I've stored it" }).press('Enter');
    await isFocused(page.getByRole('heading', { level: 1 }));
    await page.getByRole('button', { name: 'Revoke…' }).press('Enter');
    await page.getByRole('button', { name: 'Revoke now' }).press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Consumers' }).waitFor();
    await row.waitFor({ state: 'detached' });
    assert.equal(await focus(page), 'main');
    await close();
  });

  test('Escape closes the form for results, the focus returns to its button, and what was pasted is kept', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.console);
    const button = page.getByRole('button', { name: 'Load results…' });
    const pasted = page.getByLabel('Paste JSON');
    await button.click();
    await pasted.fill('[{"name": "Ho');
    await pasted.press('Escape');
    await pasted.waitFor({ state: 'detached' });
    await isFocused(button);
    await button.click();
    assert.equal(await pasted.inputValue(), '[{"name": "Ho');
    await pasted.fill('[{"name": "Hotel", "source": "pasted"}]');
    await page.getByRole('button', { name: 'Use results' }).click();
    await button.click();
    assert.equal(await pasted.inputValue(), '');
    await close();
  });

  test('a link of the navigation leaves the header where it is', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin);
    await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
    await page.evaluate('scrollTo(0, 200)');
    await goTo(page, 'Events');
    assert.equal(await page.evaluate('scrollY'), 0);
    assert.equal(await focus(page), 'main');
    await goTo(page, 'Hand-off');
    assert.equal(await page.evaluate('scrollY'), 0);
    await close();
  });

  test('a consumer without hand-off and records begins at what it may do, and its links lead somewhere', async () => {
    const partner = await gateway.newConsumer({ resource: 'webhooks', actions: ['read'] });
    const { page, close } = await openSignedIn(browser, gateway, partner);
    await page.getByRole('heading', { level: 1, name: 'My access' }).waitFor();
    await page.getByRole('link', { name: 'Endpoints' }).click();
    await page.getByText('No webhook endpoints yet.').waitFor();
    await page.evaluate(`location.hash = '#/consumers'`);
    await page.getByRole('heading', { level: 1, name: 'No access to this page' }).waitFor();
    assert.match(await page.title(), /^No access to this page/);
    await page.evaluate(`location.hash = '#/records/quotes/${randomUUID()}'`);
    await page.getByRole('link', { name: 'Go to the start page' }).click();
    await page.getByRole('heading', { level: 1, name: 'My access' }).waitFor();
    assert.match(await page.title(), /^My access/);
    await goTo(page, 'Health');
    await page.getByText('All systems operational').waitFor();
    await page.getByText('Secrets manager').waitFor();
    assert.equal(await page.getByText('calls used').count(), 0);
    assert.equal(await page.getByText('Signed in as').count(), 0);
    await close();
  });
});
