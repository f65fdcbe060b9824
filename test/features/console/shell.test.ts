import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { useGateway } from '../../support/gateway.ts';
import { accept } from '../../support/handoffs.ts';
import { goTo, openSignedIn } from './pages.ts';

describe('what is around the pages of the console', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();
  let quote: string;
  let requestId: string;
  before(async () => {
    const result = { name: 'Villa Aurora', source: 'x', details: {} };
    const body = { type: 'quote', trip_id: crypto.randomUUID(), member_id: gateway.org.memberId, result };
    const made = await gateway.request('/api/v1/handoff', { body });
    assert.equal(made.status, 201);
    quote = ((await made.json()) as { external_id: string }).external_id;
    requestId = made.headers.get('x-request-id') ?? '';
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    for (const name of ['First', 'Second']) {
      const waiting = { member_id: gateway.org.memberId, result: { ...result, name } };
      await accept(gateway, waiting, { as: agent });
    }
  });

  test('the navigation has two groups, and counts what waits until it is decided', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, '#/waiting');
    const navigation = page.getByRole('navigation', { name: 'Pages' });
    const inGroup = (name: string) => navigation.getByRole('group', { name }).getByRole('link');
    const link = navigation.getByRole('link', { name: 'Waiting', exact: true });
    await link.filter({ hasText: '2' }).waitFor();
    assert.equal(await link.getAttribute('aria-description'), '2 hand-offs');
    assert.equal(await inGroup('Work').count(), 4);
    assert.equal(await inGroup('Gateway').count(), 6);
    await check('the navigation');
    await page.getByRole('row').filter({ hasText: 'First' }).getByRole('button', { name: 'Approve' }).click();
    await link.filter({ hasText: '1' }).waitFor();
    await close();
  });

  test("a phone shows the current page's link, wherever the navigation was scrolled to", async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin);
    await page.setViewportSize({ width: 390, height: 400 });
    const navigation = page.getByRole('navigation', { name: 'Pages' });
    const isShown = async (path: string) => {
      await page.evaluate(`location.hash = '#/${path}'`);
      const current = navigation.locator(`a[href="#/${path}"][aria-current]`);
      await current.waitFor();
      await eventually(async () => {
        const { x, width } = (await current.boundingBox()) ?? { x: -1, width: 0 };
        assert.ok(x >= 0 && x + width <= 390, `${path}: from ${x}, ${width} wide`);
      });
    };
    await isShown('my-access');
    await isShown('waiting');
    await isShown('health');
    // It has no link, but the title of the page that has one.
    await page.evaluate(`location.hash = '#/handoffs/${quote}'`);
    await navigation.locator('[aria-current]').waitFor({ state: 'detached' });
    await isShown('hand-off');
    await close();
  });

  test('the palette finds pages, members, records, consumers and requests, by the keyboard alone', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, '#/health');
    await page.getByRole('heading', { level: 1, name: 'Health' }).waitFor();
    const palette = page.getByRole('dialog', { name: 'Find' });
    const find = async (text: string, kind: string, heading: string | RegExp) => {
      await page.keyboard.press('Control+k');
      await palette.waitFor();
      await page.keyboard.type(text);
      await palette.getByRole('option').filter({ hasText: kind }).first().waitFor();
      const options = palette.getByRole('option');
      const wanted = (await options.allTextContents()).findIndex((option) => option.endsWith(kind));
      for (let nth = 0; nth < wanted; nth++) await page.keyboard.press('ArrowDown');
      await options.nth(wanted).and(page.locator('[aria-selected="true"]')).waitFor();
      await page.keyboard.press('Enter');
      await palette.waitFor({ state: 'detached' });
      await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    };
    const { first_name, last_name, email } = (await (
      await gateway.request(`/v1/members/${gateway.org.memberId}`)
    ).json()) as Record<string, string>;
    await find('reserv', 'Page', 'Reservations');
    await find(email ?? '', 'Member', `${first_name} ${last_name}`);
    await find('villa au', 'Quote', 'Villa Aurora');
    await find(quote, 'Quote', 'Villa Aurora');
    await find('consol', 'Consumer', 'console');
    await find(requestId, 'Request', 'Access log');
    await page.getByRole('row').filter({ hasText: 'POST /api/v1/handoff' }).waitFor();
    assert.equal(await page.getByRole('row').count(), 2);

    await page.getByRole('button', { name: 'Find…' }).click();
    await page.keyboard.type('no such thing anywhere');
    await palette.getByText('Nothing found.').waitFor();
    await check('the palette');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Find…' }).and(page.locator(':focus')).waitFor();
    await close();
  });

  test('the palette does not open over a question', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin);
    await goTo(page, 'Consumers');
    await page.getByRole('button', { name: 'New consumer…' }).click();
    await page.keyboard.press('Control+k');
    assert.equal(await page.getByRole('dialog').count(), 1);
    await page.getByLabel('Name').and(page.locator(':focus')).waitFor();
    await close();
  });

  test('the head of a table stays in view, and a narrow one is stacked', async () => {
    const people = Array.from({ length: 40 }, (_, n) => ({
      External_Id__c: crypto.randomUUID(),
      LastName: `Person ${n}`,
    }));
    await gateway.org.insert('Contact', people);
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin, '#/records/members');
    await page.getByRole('row').nth(30).waitFor();
    const head = page.getByRole('columnheader', { name: 'E-mail' });
    for (const width of [1440, 980]) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate('scrollTo(0, 700)');
      await eventually(async () => assert.equal((await head.boundingBox())?.y, 0, `${width} wide`));
    }
    // In between two facts stand in a line.
    for (const [width, display] of [
      [940, 'grid'],
      [700, 'grid'],
      [390, 'block'],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      await eventually(async () => {
        const row = 'document.querySelector("tbody tr")';
        assert.equal(await page.evaluate(`getComputedStyle(${row}).display`), display, `${width} wide`);
      });
    }
    for (const name of ['Refresh', 'Sign out']) {
      const box = await page.getByRole('button', { name }).boundingBox();
      assert.ok(box !== null && box.height >= 24, `${name} is large enough to touch`);
    }
    await close();
  });
});
