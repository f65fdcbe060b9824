import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { accept, untilHandoff } from '../../support/handoffs.ts';
import { chooseMember, goTo, openSignedIn, signIn, textOf } from './pages.ts';

describe('answers that come late, or not at all', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '2' });
  const open = (as: Credentials) => openSignedIn(browser, gateway, as);

  /** Holds the requests to these addresses, or the first of them: what comes back waits for the next one. */
  const hold = async (page: Page, pattern: string, times?: number) => {
    const held: Route[] = [];
    let arrived = Promise.withResolvers<void>();
    const keep = (route: Route) => {
      held.push(route);
      arrived.resolve();
    };
    await page.route(pattern, keep, { ...(times && { times }) });
    return async () => {
      if (held.length === 0) await arrived.promise;
      arrived = Promise.withResolvers();
      return held.shift() as Route;
    };
  };

  test('are shown where each takes longer than the time between two requests', async () => {
    const { page, close } = await open(gateway.console);
    await page.clock.install();
    const waiting = await hold(page, '**/v1/events?*');
    await goTo(page, 'Events');
    const first = await waiting();
    await page.clock.runFor(20_000);
    await first.continue();
    await page.locator('.freshness', { hasText: 'Updated' }).waitFor();
    await page.clock.runFor(5000);
    await waiting();
    await close();
  });

  test('to a hand-off are not kept once somebody has signed out', async () => {
    const { page, close } = await open(gateway.console);
    const waiting = await hold(page, '**/api/v1/handoff');
    await chooseMember(page);
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    const request = await waiting();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, gateway.console);
    await page.getByRole('article').first().waitFor();
    await Promise.all([
      page.waitForEvent('requestfinished', (one) => one.url().endsWith('/api/v1/handoff')),
      request.fulfill({ status: 503, body: 'no gateway' }),
    ]);
    await page.reload();
    await signIn(page, gateway.console);
    await page.getByRole('article').first().waitFor();
    assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0);
    assert.equal(await page.evaluate<string>("sessionStorage.getItem('handoff.picks')"), '[]');
    await close();
  });

  test('of a list leave no gap where its first page is read again meanwhile', async () => {
    const insert = (count: number) =>
      gateway.org.insert(
        'Contact',
        Array.from({ length: count }, () => ({ External_Id__c: randomUUID(), LastName: 'Lateness' })),
      );
    await insert(70);
    const { page, close } = await open(gateway.console);
    await page.evaluate(`location.hash = '#/records/members?search=lateness'`);
    await page.getByRole('row').nth(50).waitFor();
    const further = await hold(page, '**/v1/members?*cursor=*', 1);
    await page.getByRole('button', { name: 'Show more' }).click();
    const old = await further();
    const shown = () => page.locator('a.name').evaluateAll((links) => links.map((one) => String(one)));
    const before = new Set(await shown());
    await insert(10);
    // The copy may show the new ones a little later, and among the others where all came within a second.
    await eventually(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      assert.ok((await shown()).some((one) => !before.has(one)));
    });
    await old.continue();
    await page.getByRole('row').nth(80).waitFor();
    assert.equal(new Set(await shown()).size, 80);
    await close();
  });

  test('of a search leave the way to its next page', async () => {
    const body = { trip_id: randomUUID(), member_id: gateway.org.memberId, source: 'slowly', details: {} };
    for (let n = 0; n < 51; n++) {
      const headers = { 'idempotency-key': randomUUID() };
      const made = await gateway.request('/v1/quotes', { body: { ...body, name: `Slow ${n}` }, headers });
      assert.equal(made.status, 201);
    }
    const { page, close } = await open(gateway.console);
    await page.evaluate(`location.hash = '#/records/quotes?search=slowly'`);
    await page.getByRole('row').nth(50).waitFor();
    const byStatus = await hold(page, '**/v1/quotes?status=*');
    await page.getByRole('button', { name: 'Refresh' }).click();
    await byStatus();
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByRole('row').nth(51).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    await close();
  });

  test('for somebody who has signed out disturb nobody', async () => {
    const own = await gateway.newConsumer({ resource: 'members', actions: ['read'] });
    const { page, close } = await open(own);
    const usage = await hold(page, '**/v1/consumer/usage?*');
    await goTo(page, 'My access');
    const late = await usage();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').fill('half a key');
    const refuse = async (route: Route) => {
      const answered = page.waitForResponse((response) => response.status() === 401);
      await route.fulfill({ status: 401, contentType: 'application/problem+json', body: '{}' });
      await (await answered).finished();
      // What follows from the answer has been shown.
      for (const _ of [1, 2]) await page.evaluate('new Promise(requestAnimationFrame)');
    };
    await refuse(late);
    assert.equal(await page.getByLabel('API key').inputValue(), 'half a key');
    assert.equal(await page.getByRole('alert').count(), 0);
    await signIn(page, own);
    await goTo(page, 'My access');
    const next = await usage();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(page, gateway.admin);
    await page.getByRole('link', { name: 'Consumers' }).waitFor();
    await refuse(next);
    await page.getByRole('link', { name: 'Consumers' }).waitFor();
    await close();
  });

  test('show each new secret until it is stored', async () => {
    for (const path of ['/one', '/two']) {
      const body = { url: `http://127.0.0.1:9999${path}` };
      const made = await gateway.request('/v1/webhook-endpoints', { body, as: gateway.admin });
      assert.equal(made.status, 201);
    }
    const { page, close } = await open(gateway.admin);
    await goTo(page, 'Events');
    await page.getByRole('link', { name: 'Webhook endpoints' }).click();
    const rotations = await hold(page, '**/rotate-secret');
    const routes: Route[] = [];
    for (const path of ['/one', '/two']) {
      const row = page.getByRole('row').filter({ hasText: path });
      await row.getByRole('button', { name: 'Rotate secret' }).click();
      await row.getByRole('button', { name: 'Rotate now' }).click();
      routes.push(await rotations());
      await page.keyboard.press('Escape');
    }
    for (const route of routes) {
      const answered = page.waitForResponse('**/rotate-secret');
      await route.continue();
      await (await answered).finished();
    }
    for (const path of ['/one', '/two']) {
      await page.getByRole('heading', { name: new RegExp(`New secret for .*${path}`) }).waitFor();
      await page.getByRole('button', { name: "I've stored it" }).click();
    }
    await page.getByRole('row').filter({ hasText: '/one' }).waitFor();
    await close();
  });

  test('keep the reason of a rejection that did not arrive', async () => {
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const result = { name: 'Rejected in vain', source: 'x', details: {} };
    const body = { type: 'quote', trip_id: randomUUID(), member_id: gateway.org.memberId, result };
    assert.equal((await gateway.request('/api/v1/handoff', { body, as: agent })).status, 202);
    const { page, close } = await open(gateway.console);
    await goTo(page, 'Waiting');
    await page.getByRole('button', { name: 'Reject' }).click();
    await page.getByLabel('Reason').fill('Too dear');
    await page.route('**/reject', (route) => route.fulfill({ status: 503, body: 'no gateway' }), {
      times: 1,
    });
    const button = page.getByRole('button', { name: 'Reject now' });
    await button.click();
    await textOf(page.getByRole('alert'), /Service Unavailable/);
    assert.equal(await page.getByLabel('Reason').inputValue(), 'Too dear');
    await button.click();
    await textOf(page.getByRole('row').filter({ hasText: 'rejected' }), /Too dear/);
    await close();
  });

  test('that are refused are asked for less often, and not before the service wants it', async () => {
    const id = await accept(gateway, { member_id: randomUUID() });
    const { page, close } = await open(gateway.console);
    await page.clock.install();
    const problem = { title: 'Too many requests', status: 429, code: 'rate_limited', detail: 'Wait.' };
    let answer = { status: 429, json: { ...problem, retry_after: 30 } as object };
    let count = 0;
    await page.route(`**/v1/handoffs/${id}?*`, (route) => {
      count += 1;
      return route.fulfill({ ...answer, contentType: 'application/problem+json' });
    });
    const asked = () => page.waitForResponse(`**/v1/handoffs/${id}?*`);
    const run = async (seconds: number) => {
      for (let left = seconds; left > 0; left -= 2.5) {
        await page.clock.runFor(2500);
        // What was sent has left the page, and what follows from an answer has been shown.
        await page.evaluate('fetch("/console/icon.svg").then(() => new Promise(requestAnimationFrame))');
      }
    };
    const first = asked();
    await page.evaluate(`location.hash = '#/handoffs/${id}'`);
    await first;
    await textOf(page.getByRole('alert'), /Try again in 30 s/);
    await run(25);
    assert.equal(count, 1);
    answer = { status: 429, json: problem };
    const [second] = await Promise.all([asked(), run(10)]);
    await second.finished();
    count = 0;
    await run(60);
    assert.ok(count > 0 && count < 8, `${count} requests in a minute`);
    // Whoever asks for it gets it at once.
    await page.unroute(`**/v1/handoffs/${id}?*`);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('region', { name: 'Progress' }).waitFor();
    await close();
  });

  test('say once that nothing can be read', async () => {
    const { page, close } = await open(gateway.console);
    await page.route('**/v1/handoffs?*', (route) => route.fulfill({ status: 503, body: 'no gateway' }));
    await goTo(page, 'Waiting');
    await textOf(page.getByRole('alert'), /Service Unavailable/);
    // Closing fails where an error of the page was caught by nobody.
    await close();
  });

  test('of the settings keep nobody out', async () => {
    const { page, close } = await browser.open(`${gateway.url}/console/`);
    await page.route('**/console/settings', () => undefined);
    await page.reload();
    await signIn(page, gateway.console);
    await page.getByRole('heading', { level: 1, name: 'Hand-off' }).waitFor();
    await close();
  });

  test('of some names keep no others from being shown, and are asked for again', async () => {
    await untilHandoff(gateway, await accept(gateway));
    const ids: string[] = Array.from({ length: 25 }, () => randomUUID());
    const { page, close } = await open(gateway.console);
    await page.clock.install();
    await page.route('**/v1/handoffs?limit=100', async (route) => {
      const response = await route.fetch();
      const list = (await response.json()) as { data: object[] };
      const data = ids.map((external_id) => ({ ...list.data[0], external_id }));
      await route.fulfill({ response, json: { ...list, data } });
    });
    let readable = ids.slice(20);
    await page.route('**/v1/quotes/*', (route) => {
      const id = new URL(route.request().url()).pathname.slice('/v1/quotes/'.length);
      const isReadable = readable.includes(id);
      return route.fulfill(
        isReadable ? { json: { name: `Quote ${ids.indexOf(id)}` } } : { status: 503, body: '' },
      );
    });
    await goTo(page, 'Waiting');
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByRole('row').filter({ hasText: 'Quote 24' }).waitFor();
    readable = ids;
    await page.clock.runFor(70_000);
    await page.getByRole('row').filter({ hasText: 'Quote 19' }).waitFor();
    await close();
  });
});
