import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { findChromium, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { chooseMember, signIn, textOf } from './pages.ts';

const program = findChromium();
const sample = await readFile(join(import.meta.dirname, '../../../docs/pass-results.html'));

/** A search program: every address of it shows the sample page. */
async function startSearch(): Promise<{ server: Server; origin: string }> {
  const server = createServer((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(sample),
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

describe('results that a search program passes to the console', {
  skip: program === undefined && 'there is no Chromium on this machine',
}, () => {
  let gateway: TestGateway;
  let browser: TestBrowser;
  let listed: Awaited<ReturnType<typeof startSearch>>;
  let stranger: Awaited<ReturnType<typeof startSearch>>;
  before(async () => {
    [listed, stranger] = await Promise.all([startSearch(), startSearch()]);
    gateway = await startGateway({ CONSOLE_RESULT_ORIGINS: `https://search.example.com,${listed.origin}` });
    browser = await startBrowser(program as string);
  });
  after(async () => {
    await browser.close();
    await gateway.stop();
    for (const { server } of [listed, stranger]) {
      server.closeAllConnections();
      server.close();
    }
  });

  /** The page of a search program, and the console that it has opened. */
  const openFrom = async (origin: string) => {
    const query = new URLSearchParams({
      console: `${gateway.url}/console/`,
      member: gateway.org.memberId,
    });
    const search = await browser.open(`${origin}/results?${query.toString()}`);
    const [desk] = await Promise.all([
      search.page.waitForEvent('popup'),
      search.page.getByRole('button', { name: 'Open in the console' }).click(),
    ]);
    return { search, desk };
  };
  /** Passes a message as the search program, in its page. `message`: an expression. */
  const pass = (page: Page, message: string) =>
    page.evaluate(`new Promise((resolve) => {
      const opened = open('${gateway.url}/console/#/hand-off?results=x');
      addEventListener('message', () => resolve(opened.postMessage(${message}, '*')), { once: true });
    })`);

  test('are shown once somebody has signed in, and are handed off', async () => {
    const { search, desk } = await openFrom(listed.origin);
    await textOf(search.page.getByRole('status'), /Passed 2 results/);
    await signIn(desk, gateway.console);
    await desk.getByRole('heading', { name: `2 search results from ${listed.origin}` }).waitFor();
    const card = desk.getByRole('article', { name: /Hotel Miramar/ });
    await textOf(card, /612\.40 EUR.*The offer ends in 5\d min/s);
    const tripId = await desk.getByRole('textbox', { name: 'Trip ID' }).inputValue();
    await card.getByRole('button', { name: 'Hand off as quote', disabled: false }).click();
    const text = await textOf(desk.getByRole('status'), /Quote created/);
    const externalId = /[\da-f]{8}-[\da-f-]{27}/.exec(text)?.[0] ?? '';
    const [record] = await gateway.org.records('Quote__c', { External_Id__c: externalId });
    assert.deepEqual([record?.['Trip_Id__c'], record?.['Source__c']], [tripId, 'hotelbeds']);
    await search.close();
  });

  test('replace what is shown, also trip and member; those that cannot be used are named', async () => {
    const search = await browser.open(listed.origin);
    const tripId = randomUUID();
    const results = `[
      { name: 'Over', source: 'x', valid_until: '2020-01-01T00:00:00Z', details: {} },
      'no object',
      { name: 'Soon', source: 'x', valid_until: 'soon', details: {} },
      { name: '<b>Text</b>', source: 'x', details: { price: '5.00', currency: 'EUR' } },
    ]`;
    const popup = search.page.waitForEvent('popup');
    await pass(search.page, `{ type: 'handoff-results', results: ${results}, trip_id: '${tripId}' }`);
    const desk = await popup;
    await signIn(desk, gateway.console);
    const alert = desk.getByRole('alert');
    await textOf(alert, /Result 2 isn't an object.*Result 3: "valid_until" isn't a time/s);
    assert.equal(await desk.getByRole('article').count(), 2);
    assert.equal(await desk.getByRole('textbox', { name: 'Trip ID' }).inputValue(), tripId);
    assert.equal(await desk.getByRole('article', { name: 'Over' }).getByRole('button').count(), 0);
    await desk.getByRole('article', { name: '<b>Text</b>' }).waitFor();
    await search.close();
  });

  test('once more, or in place of others, keep what became of them', async () => {
    const search = await browser.open(listed.origin);
    const popup = search.page.waitForEvent('popup');
    const send = (names: string[], tripId: string) => `globalThis.desk.postMessage({
      type: 'handoff-results',
      results: ${JSON.stringify(names.map((name) => ({ name, source: 'x', details: {} })))},
      trip_id: '${tripId}',
    }, '*')`;
    await search.page.evaluate(`new Promise((resolve) => {
      globalThis.desk = open('${gateway.url}/console/#/hand-off?results=x');
      addEventListener('message', () => resolve(${send(['First', 'Second'], randomUUID())}), { once: true });
    })`);
    const desk = await popup;
    await signIn(desk, gateway.console);
    const card = (name: string) => desk.getByRole('article', { name });
    const handOff = (name: string) =>
      card(name).getByRole('button', { name: 'Hand off as quote', disabled: false }).click();
    await chooseMember(desk);
    await handOff('First');
    await textOf(desk.getByRole('status'), /Quote created/);
    await desk.route('**/api/v1/handoff', (route) => route.fulfill({ status: 503, body: 'lost' }), {
      times: 1,
    });
    await handOff('Second');
    const again = desk.getByRole('button', { name: 'Try again' });
    await again.waitFor();
    const tripId = randomUUID();
    await search.page.evaluate(send(['First', 'Second'], tripId));
    const trip = desk.getByRole('textbox', { name: 'Trip ID' });
    await eventually(async () => assert.equal(await trip.inputValue(), tripId));
    await card('First').getByRole('button', { name: 'Hand off again…' }).waitFor();
    await card('Second').getByRole('button', { name: 'Try again' }).waitFor();
    await search.page.evaluate(send(['Third'], tripId));
    await card('Third').waitFor();
    await desk.getByRole('region', { name: 'unfinished hand-offs' }).getByText('Second, as quote').waitFor();
    await again.click();
    await textOf(desk.getByRole('status'), /Second, as quote.*Quote created/s);
    await search.close();
  });

  for (const [what, message, said] of [
    ['no list', `{ type: 'handoff-results', results: 'x' }`, /"results" isn't a list/],
    [
      'too many',
      `{ type: 'handoff-results', results: Array(501).fill({ a: 1 }) }`,
      /at most 500 can be loaded/,
    ],
    [
      'too much',
      `{ type: 'handoff-results', results: [{ a: 'x'.repeat(21 * 1024 * 1024) }] }`,
      /over 20 MiB/,
    ],
    [
      'deeper than the service takes',
      `{ type: 'handoff-results', results: [{ a: JSON.parse('['.repeat(200) + ']'.repeat(200)) }] }`,
      /Result 1 is nested more than 100 levels deep/,
    ],
    ['what JSON does not have', `{ type: 'handoff-results', results: [{ a: 1n }] }`, /written as JSON/],
  ] as const)
    test(`that are ${what} are refused by name`, async () => {
      const search = await browser.open(listed.origin);
      const popup = search.page.waitForEvent('popup');
      await pass(search.page, message);
      const desk = await popup;
      await signIn(desk, gateway.console);
      await textOf(desk.getByRole('alert'), said);
      await search.close();
    });

  test('of other origins are ignored: their pages have no hold of the window', async () => {
    const { search, desk } = await openFrom(stranger.origin);
    await signIn(desk, gateway.console);
    await textOf(desk.getByRole('alert'), /Can't receive results.*console\.resultOrigins/s);
    assert.equal(await desk.evaluate('opener'), null);
    assert.equal(await search.page.getByRole('status').textContent(), 'Waiting for the console…');
    // Not even the console's own origin is one of those.
    await desk.evaluate(`new Promise((resolve) => {
      addEventListener('message', resolve, { once: true });
      postMessage({ type: 'handoff-results', results: [{ a: 1 }] }, '*');
    })`);
    assert.equal(await desk.getByRole('article').count(), 0);
    await search.close();
  });

  test('need an opener that the browser names as one of the origins', async () => {
    const policyFor = async (referer?: string) => {
      const headers = referer === undefined ? {} : { referer };
      const response = await gateway.request('/console/', { as: null, headers });
      assert.match(response.headers.get('vary') ?? '', /Referer/);
      return response.headers.get('cross-origin-opener-policy');
    };
    assert.equal(await policyFor(`${listed.origin}/`), 'unsafe-none');
    assert.equal(await policyFor('https://search.example.com/results?q=1'), 'unsafe-none');
    for (const referer of [
      undefined,
      'x',
      `${stranger.origin}/`,
      'http://search.example.com/',
      'https://search.example.com.evil.example/',
      'https://search.example.com@evil.example/',
    ])
      assert.equal(await policyFor(referer), 'same-origin', referer);
  });
});

test('origins that are no origins keep the service from starting', async () => {
  for (const [origin, fault] of [
    ['https://search.example.com/', /isn't an origin: write https:\/\/search\.example\.com/],
    ['https://SEARCH.example.com', /write https:\/\/search\.example\.com/],
    ['search.example.com', /isn't an origin such as/],
    ['*', /isn't an origin such as/],
    ['null', /isn't an origin such as/],
    ['http://search.example.com', /must begin with https:\/\/, or name this machine/],
  ] as const)
    await assert.rejects(startGateway({ CONSOLE_RESULT_ORIGINS: origin }), fault, origin);
});
