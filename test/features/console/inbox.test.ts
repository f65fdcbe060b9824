import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Locator, Page, Request } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { accept, readHandoff, untilHandoff } from '../../support/handoffs.ts';
import { goTo, openSignedIn, stopClock, textOf } from './pages.ts';

describe('the inbox of the console, and the page of a hand-off', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });
  let agent: Credentials;
  before(async () => {
    agent = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'], approval: true });
  });

  const details = {
    checkIn: '2030-05-04',
    hotel: 'Alameda',
    totalPrice: { amount: '1204.55', currency: 'EUR' },
  };
  /** Hands off what waits for approval; returns its id. */
  const ask = (name: string, change: object = {}) =>
    accept(
      gateway,
      { member_id: gateway.org.memberId, result: { name, source: 'x', details }, ...change },
      { as: agent, headers: { 'x-actor': 'ana@example.com' } },
    );
  const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });
  const marked = (row: Locator) => row.and(row.page().locator('[aria-current="true"]'));
  const focused = (element: Locator) => element.and(element.page().locator(':focus'));
  const undo = (row: Locator) => row.getByRole('button', { name: 'Undo', exact: true });
  const said = (page: Page, pattern: RegExp) => textOf(page.locator('[aria-live]').first(), pattern);

  /** The inbox, and the approvals that leave it. */
  async function openInbox(...names: string[]) {
    const ids: string[] = [];
    for (const name of names) ids.push(await ask(name));
    const opened = await openSignedIn(browser, gateway, gateway.admin);
    const { page } = opened;
    const approvals: Request[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/approve')) approvals.push(request);
    });
    await page.getByRole('article').first().waitFor();
    await goTo(page, 'Waiting');
    for (const name of names) await rowOf(page, name).waitFor();
    if (names.length > 0) await stopClock(page);
    // The clock is that of the profile, which others use after this.
    const close = async () => {
      await page.clock.resume();
      await opened.close();
    };
    return { ...opened, close, ids, approvals };
  }

  test('J and K move the mark, A approves, R asks why, and no key counts while somebody types', async () => {
    const { page, check, close, approvals } = await openInbox('Third', 'Second', 'First');
    const [first, second, third] = ['First', 'Second', 'Third'].map((name) => rowOf(page, name)) as [
      Locator,
      Locator,
      Locator,
    ];
    assert.equal(await page.locator('main [aria-current]').count(), 0);
    await page.keyboard.press('a');
    await page.keyboard.press('j');
    await focused(marked(first)).waitFor();
    await page.keyboard.press('j');
    await focused(marked(second)).waitFor();
    await page.keyboard.press('k');
    await page.keyboard.press('k');
    await focused(marked(first)).waitFor();
    for (const key of ['Control+j', 'Shift+j', 'Alt+j', 'Shift+a']) await page.keyboard.press(key);
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Find' }).waitFor();
    await page.keyboard.type('jar');
    await page.keyboard.press('Escape');
    await focused(marked(first)).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Undo' }).count(), 0);

    await page.keyboard.press('r');
    const dialog = page.getByRole('dialog', { name: 'Reject First?' });
    await focused(dialog.getByLabel('Reason')).waitFor();
    await page.keyboard.type('just a reason');
    assert.equal(await dialog.getByLabel('Reason').inputValue(), 'just a reason');
    await page.keyboard.press('Enter');
    await first.filter({ hasText: 'Approve' }).waitFor({ state: 'detached' });
    await said(page, /Rejected First/);
    await focused(marked(second)).waitFor();
    await page.keyboard.press('a');
    await undo(second).waitFor();
    await said(page, /Approving Second in 5 seconds/);
    await focused(marked(third)).waitFor();
    await page.keyboard.press('u');
    await undo(second).waitFor({ state: 'detached' });
    await focused(marked(second)).waitFor();
    assert.equal(approvals.length, 0);
    await page.clock.resume();
    await check('the inbox');
    await close();
  });

  test('a reason that somebody types stays, and decides on nothing else, where somebody else was faster', async () => {
    const { page, close, ids } = await openInbox('Next in line', 'Decided elsewhere');
    await rowOf(page, 'Decided elsewhere').getByRole('button', { name: 'Reject…' }).press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Reject Decided elsewhere?' });
    await page.keyboard.type('t');
    const path = `/v1/handoffs/${ids[1]}/approve`;
    assert.equal((await gateway.request(path, { method: 'POST', as: gateway.admin })).status, 202);
    await untilHandoff(gateway, ids[1] as string);
    await page.clock.runFor(5000);
    const done = page.getByRole('region', { name: 'Done hand-offs' }).getByRole('row');
    await done.filter({ hasText: 'Decided elsewhere' }).waitFor();
    await page.keyboard.type('aking a');
    assert.equal(await dialog.getByLabel('Reason').inputValue(), 'taking a');
    await page.keyboard.press('Enter');
    await dialog.getByRole('alert').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('button', { name: 'Undo' }).count(), 0);
    assert.notEqual(await page.evaluate('document.activeElement.tagName'), 'BODY');
    await close();
  });

  for (const [width, height] of [
    [720, 450],
    [390, 844],
  ] as const)
    test(`keeps what it says off the buttons of the rows where the window is ${width} by ${height}`, async () => {
      const name = `Small ${width}`;
      const { page, close } = await openInbox(`Next ${width}`, name);
      await page.setViewportSize({ width, height });
      const row = rowOf(page, name);
      await row.getByRole('button', { name: 'Approve' }).press('Enter');
      await said(page, new RegExp(`Approving ${name}`));
      const toast = await page.locator('.announcer p').boundingBox();
      const approve = rowOf(page, `Next ${width}`).getByRole('button', { name: 'Approve' });
      for (const button of [undo(row), approve]) {
        const box = await button.boundingBox();
        assert.ok(toast && box && toast.y + toast.height <= box.y);
      }
      await undo(row).press('Enter');
      await close();
    });

  test('Undo sends nothing; after five seconds the approval of what was seen is sent', async () => {
    const { page, close, ids, approvals } = await openInbox('Undone', 'Approved');
    const row = rowOf(page, 'Undone');
    await row.getByRole('button', { name: 'Approve' }).press('Enter');
    await page.clock.runFor(4900);
    await undo(row).press('Enter');
    await row.getByRole('button', { name: 'Approve' }).waitFor();
    await said(page, /Didn't approve Undone/);
    assert.notEqual(await page.evaluate('document.activeElement.tagName'), 'BODY');
    await page.clock.runFor(20_000);
    assert.equal(approvals.length, 0);

    const other = rowOf(page, 'Approved');
    await other.getByRole('button', { name: 'Approve' }).press('Enter');
    await undo(other).waitFor();
    await page.clock.runFor(4900);
    assert.equal(approvals.length, 0);
    await Promise.all([page.waitForRequest('**/approve'), page.clock.runFor(100)]);
    await said(page, /Approved Approved/);
    await other.filter({ hasText: 'Undo' }).waitFor({ state: 'detached' });
    const { version } = await readHandoff(gateway, ids[1] as string);
    assert.deepEqual(
      approvals.map((request) => request.headers()['if-match']),
      [`"${version}"`],
    );
    await untilHandoff(gateway, ids[1] as string);
    assert.equal((await readHandoff(gateway, ids[0] as string)).status, 'awaiting_approval');
    await close();
  });

  test('an approval of what was replaced meanwhile is refused, and says so', async () => {
    const { page, close, approvals } = await openInbox('Replaced');
    await page.route('**/approve', async (route) =>
      route.continue({ headers: { ...route.request().headers(), 'if-match': '"another"' } }),
    );
    await rowOf(page, 'Replaced').getByRole('button', { name: 'Approve' }).click();
    await Promise.all([page.waitForRequest('**/approve'), page.clock.runFor(5000)]);
    await page.getByRole('alert').waitFor();
    await rowOf(page, 'Replaced').getByRole('button', { name: 'Approve' }).waitFor();
    assert.equal(approvals.length, 1);
    await page.unrouteAll();
    await close();
  });

  test('a failed approval stays in view while others go well', async () => {
    const { page, close, ids } = await openInbox('Goes well', 'Fails');
    const approve = async (name: string) => {
      await rowOf(page, name).getByRole('button', { name: 'Approve' }).click();
      await undo(rowOf(page, name)).waitFor();
    };
    await page.route(`**/${ids[1]}/approve`, (route) => route.fulfill({ status: 503, body: 'none' }));
    await approve('Fails');
    await page.clock.runFor(2000);
    await approve('Goes well');
    await page.clock.runFor(3000);
    await textOf(page.getByRole('alert'), /^Couldn't approve Fails/);
    await page.clock.runFor(2000);
    await said(page, /Approved Goes well/);
    await rowOf(page, 'Goes well').filter({ hasText: 'Undo' }).waitFor({ state: 'detached' });
    await textOf(page.getByRole('alert'), /^Couldn't approve Fails/);
    await page.unrouteAll();
    await close();
  });

  test('says at sign-in that an approval may not have been sent', async () => {
    const lead = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'] });
    const id = await ask('Cut off');
    const { page, close } = await openSignedIn(browser, gateway, lead, '#/waiting');
    await rowOf(page, 'Cut off').getByRole('button', { name: 'Approve' }).click();
    await undo(rowOf(page, 'Cut off')).waitFor();
    const body = { enabled: false };
    const path = `/v1/admin/consumers/${lead.id}`;
    assert.equal((await gateway.request(path, { method: 'PATCH', as: gateway.admin, body })).status, 200);
    await textOf(page.getByRole('alert'), /You were signed out.*approval may not have gone through/s);
    assert.equal((await readHandoff(gateway, id)).status, 'awaiting_approval');
    await close();
  });

  test('who leaves the page, closes the tab or signs out has approved, whatever waits', async () => {
    const { page, close, ids, approvals } = await openInbox('Left one', 'Left two', 'Closed', 'Signed out');
    const approve = async (name: string) => {
      await rowOf(page, name).getByRole('button', { name: 'Approve' }).click();
      await undo(rowOf(page, name)).waitFor();
    };
    await approve('Left one');
    await approve('Left two');
    assert.equal(approvals.length, 0);
    await goTo(page, 'Records');
    await page.clock.resume();
    for (const id of ids.slice(0, 2)) await untilHandoff(gateway, id);
    await goTo(page, 'Waiting');
    await rowOf(page, 'Closed').waitFor();
    await stopClock(page);
    await approve('Closed');
    // What a tab does that is closed, too.
    await page.reload();
    await page.clock.resume();
    await untilHandoff(gateway, ids[2] as string);
    await page.getByLabel('API key').fill(gateway.admin.apiKey);
    await page.getByLabel('API secret').fill(gateway.admin.apiSecret);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await goTo(page, 'Waiting');
    await rowOf(page, 'Signed out').waitFor();
    await stopClock(page);
    await approve('Signed out');
    await page.route('**/approve', (route) => route.fulfill({ status: 503, body: 'none' }), { times: 1 });
    await page.getByRole('button', { name: 'Sign out' }).click();
    await textOf(page.getByRole('alert'), /Your last approval failed/);
    assert.equal((await readHandoff(gateway, ids[3] as string)).status, 'awaiting_approval');
    await close();
  });

  test('who signs out waits a few seconds for the answer, and reads that none came', async () => {
    const { page, close } = await openInbox('Unanswered');
    await stopClock(page);
    await page.route('**/approve', () => {});
    await rowOf(page, 'Unanswered').getByRole('button', { name: 'Approve' }).click();
    await undo(rowOf(page, 'Unanswered')).waitFor();
    await Promise.all([
      page.waitForRequest('**/approve'),
      page.getByRole('button', { name: 'Sign out' }).click(),
    ]);
    await page.clock.runFor(4000);
    await textOf(page.getByRole('alert'), /may not have gone through.*Check Waiting/s);
    await page.getByLabel('API key').waitFor();
    await close();
  });

  test('what was seen waiting keeps its name once it is done, in an outage too', async () => {
    const { page, close, ids } = await openInbox('Named before');
    await page.clock.resume();
    await page.route('**/v1/quotes/*', (route) => route.fulfill({ status: 503, body: 'none' }));
    const path = `/v1/handoffs/${ids[0]}/approve`;
    assert.equal((await gateway.request(path, { method: 'POST', as: gateway.admin })).status, 202);
    const done = page.getByRole('region', { name: 'Done hand-offs' }).getByRole('row');
    await textOf(done, /Named before.*created/s);
    await close();
  });

  test('what decides is in view at 200 % zoom and on a phone', async () => {
    const valid_until = new Date(Date.now() + 7_200_000).toISOString();
    const totalPrice = { amount: '14544.429999999998', currency: 'EUR' };
    const result = { name: 'Calculated', source: 'x', details: { ...details, totalPrice } };
    await ask('Calculated', { valid_until, result });
    await ask('Decided by its price', { valid_until });
    const { page, picture, close } = await openInbox();
    await rowOf(page, 'Calculated').waitFor();
    await picture('the inbox with a long amount');
    const row = rowOf(page, 'Decided by its price');
    await row.getByTitle('1204.55 EUR').waitFor();
    for (const [width, height] of [
      [720, 450],
      [390, 844],
    ] as const) {
      await page.setViewportSize({ width, height });
      await row
        .locator('td')
        .first()
        .click({ position: { x: 2, y: 2 } });
      await row.evaluate('row => row.scrollIntoView({ block: "nearest" })');
      for (const [title, text] of [
        ['Name', /Decided by its price.*hotel.*4 May 2030/s],
        ['Amount', /1,204\.55 EUR/],
        ['Member', /\w/],
        ['Requested by', /ana@example\.com.*not verified/s],
        ['Offer ends', /in 1 hr/],
      ] as const) {
        const cell = row.locator(`td[data-title="${title}"]`);
        await textOf(cell, text);
        const { x, y, width: wide, height: high } = (await cell.boundingBox()) ?? assert.fail(title);
        const isInside = x >= 0 && y >= 0 && x + wide <= width && y + high <= height;
        assert.ok(isInside, `${title} at ${width} × ${height}: ${x}, ${y}, ${wide}, ${high}`);
      }
    }
    await close();
  });

  test('the page of a hand-off moves with it, from the question until Salesforce has the record', async (context) => {
    const id = await ask('Followed');
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, '#/waiting');
    await page.getByRole('link', { name: 'Followed' }).click();
    await page.getByRole('heading', { level: 1, name: 'Followed' }).waitFor();
    const steps = page.getByRole('region', { name: 'Progress' }).getByRole('listitem');
    const now = steps.and(page.locator('[aria-current="step"]'));
    await textOf(now, /^Waiting for approval/);
    await textOf(
      page.getByRole('region', { name: 'Overview' }),
      /Requested byana@example\.com.*not verified/s,
    );
    await page.getByRole('region', { name: 'Details' }).getByText('2 fields').click();
    await page.getByRole('region', { name: 'Details' }).getByTitle('1204.55', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Raw text' }).click();
    await page.getByRole('region', { name: 'Raw text' }).getByText('"1204.55"').waitFor();
    await check('a hand-off that waits');
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    context.after(() => gateway.org.disarm());
    assert.match(await page.title(), /^Followed/);
    const response = await gateway.request(`/v1/handoffs/${id}/approve`, {
      method: 'POST',
      as: gateway.admin,
    });
    assert.equal(response.status, 202, await response.text());
    await textOf(steps.nth(1), /^Approved by admin.* later$/s);
    await textOf(now, /to Salesforce/);
    const attempts = page.getByRole('list', { name: 'Attempts' }).getByRole('listitem');
    await textOf(attempts.first(), /Attempt \d+: Salesforce .*crm_unavailable.*took /s);
    await textOf(now, /The gateway will try again automatically/);
    await attempts.nth(1).waitFor();
    const times = await attempts.locator('time').all();
    const days = new Set<string>();
    for (const time of times) {
      const day = new Date((await time.getAttribute('datetime')) ?? '').toDateString();
      assert.equal(
        / \d{4}, /.test((await time.textContent()) ?? ''),
        !days.has(day),
        'each date stands once',
      );
      days.add(day);
    }
    await check('a hand-off during an outage');
    await gateway.org.disarm();
    await textOf(steps.last(), /^Created in Salesforce.* later$/s);
    await said(page, /Created Followed/);
    await textOf(attempts.first(), /Attempt \d+: Succeeded.*took /s);
    assert.equal(await now.count(), 0);
    await page.getByText('Alameda').waitFor();

    await page.getByRole('link', { name: 'Show the quote' }).click();
    await page.getByRole('link', { name: 'Show the hand-off' }).click();
    // The hand-off keeps no result any more; its record does.
    await page.getByRole('heading', { level: 1, name: 'Followed' }).waitFor();
    await textOf(page.getByRole('region', { name: 'Overview' }), /Quote · Show the quote/);
    await page.getByTitle('1204.55 EUR').waitFor();
    await check('a hand-off that is done');
    await close();
  });

  test('the page of a hand-off decides, shows why one failed, and is found by its id', async () => {
    const id = await ask('Decided here');
    const failed = await accept(gateway, {
      member_id: randomUUID(),
      result: { name: 'Fails', source: 'x', details },
    });
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin, `#/handoffs/${id}`);
    await page.getByRole('button', { name: 'Approve' }).press('Enter');
    await page.getByRole('button', { name: 'Undo' }).press('Enter');
    await page.getByRole('button', { name: 'Reject…' }).press('Enter');
    await page.keyboard.type('Too dear');
    await page.keyboard.press('Enter');
    await textOf(page.getByRole('region', { name: 'Progress' }), /Rejected by admin.*Too dear/s);
    assert.notEqual(await page.evaluate('document.activeElement.tagName'), 'BODY');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Find' }).fill(failed);
    await page.getByRole('option').filter({ hasText: 'Fails' }).filter({ hasText: 'Hand-off' }).click();
    await page.getByRole('heading', { level: 1, name: 'Fails' }).waitFor();
    await textOf(page.getByRole('region', { name: 'Progress' }), /Failed.*The member doesn't exist/s);
    await textOf(page.getByRole('list', { name: 'Attempts' }), /Attempt 1: .*member_not_found.*took /s);
    await page.getByRole('button', { name: 'Retry' }).waitFor();
    await page.evaluate(`location.hash = '#/handoffs/${randomUUID()}'`);
    await page.getByRole('heading', { level: 1, name: 'Hand-off not found' }).waitFor();
    assert.match(await page.title(), /^Hand-off not found/);
    await page.evaluate(`location.hash = '#/handoffs/nothing'`);
    await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
    await close();
  });
});
