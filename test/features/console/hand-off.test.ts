import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Locator, Page, Request } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { assertKeepsNoCredentials, chooseMember, goTo, openSignedIn, signIn, textOf } from './pages.ts';

describe('the hand-off in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();

  const open = (as = gateway.console) => openSignedIn(browser, gateway, as);
  const openForMember = async () => {
    const opened = await open();
    await chooseMember(opened.page);
    return opened;
  };
  /** The requests that hand something off, as they leave the page. */
  const watch = (page: Page): Request[] => {
    const sent: Request[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/api/v1/handoff')) sent.push(request);
    });
    return sent;
  };
  const keyOf = (request: Request | undefined) => request?.headers()['idempotency-key'];

  test('makes a quote of a sample, and links to its page in the CRM', async () => {
    const { page, close } = await openForMember();
    const card = page.getByRole('listitem').getByRole('article').first();
    const name = await card.getByRole('heading').textContent();
    await card.getByRole('button', { name: 'Hand off as quote' }).click();
    const text = await textOf(page.getByRole('status'), /created/);
    const externalId = /[\da-f]{8}-[\da-f-]{27}/.exec(text)?.[0] ?? '';
    const [record] = await gateway.org.records('Quote__c', { External_Id__c: externalId });
    assert.equal(record?.['Name__c'], name);
    assert.equal(record?.['Trip_Id__c'], await page.getByRole('textbox', { name: 'Trip ID' }).inputValue());
    const [shown] = await Promise.all([
      page.waitForEvent('popup'),
      page.getByRole('status').getByRole('link', { name: 'Open the quote in Salesforce' }).click(),
    ]);
    await shown.getByRole('heading', { name: name ?? '' }).waitFor();
    assert.ok((await shown.content()).includes(externalId));
    await assertKeepsNoCredentials(page, gateway.console);
    await page.getByRole('status').getByRole('link', { name: 'Show the trip' }).waitFor();
    await page.getByRole('status').getByRole('link', { name: 'Show the quote' }).click();
    await page.getByRole('heading', { level: 1, name: name ?? '' }).waitFor();
    await close();
  });

  test('leaves no gap in the card beside one that was handed off', async () => {
    const { page, close } = await openForMember();
    const [card, beside] = [0, 1].map((n) => page.getByRole('article').nth(n)) as [Locator, Locator];
    await card.getByRole('button', { name: 'Hand off as quote' }).click();
    await textOf(card.getByRole('status'), /created/);
    const details = await beside.getByText('Details', { exact: true }).boundingBox();
    const button = await beside.getByRole('button', { name: 'Hand off as quote' }).boundingBox();
    assert.ok(details && button);
    const gap = button.y - details.y - details.height;
    assert.ok(gap >= 0 && gap < 24, `${gap} px`);
    const [one, other] = [await card.boundingBox(), await beside.boundingBox()];
    assert.equal(one?.height, other?.height, 'cards of a row have one height');
    await close();
  });

  test('chooses no member in advance, and hands nothing off before somebody does', async () => {
    const { page, close } = await open();
    const sent = watch(page);
    const card = page.getByRole('article').first();
    const button = card.getByRole('button', { name: 'Hand off as quote', disabled: false });
    await button.click();
    await textOf(page.getByRole('alert'), /Choose a member first/);
    const member = page.getByRole('combobox', { name: 'Member' });
    assert.equal(await member.inputValue(), '');
    assert.equal(sent.length, 0);
    await chooseMember(page);
    assert.notEqual(await member.inputValue(), '');
    await button.click();
    await textOf(card.getByRole('status'), /Quote created/);
    assert.equal(sent.length, 1);
    await close();
  });

  test('offers at least 12 samples of 5 kinds, and says before the click what expired or costs more', async () => {
    const { page, close } = await open();
    const cards = page.getByRole('article');
    await cards.first().waitFor();
    assert.ok((await cards.count()) >= 12);
    const kinds = new Set(await page.locator('.kind').allTextContents());
    assert.ok(kinds.size >= 5, [...kinds].join());
    assert.ok((await cards.filter({ hasText: 'This offer expired' }).count()) > 0);
    assert.ok((await cards.filter({ hasText: 'The price has changed. It was' }).count()) > 0);
    await close();
  });

  test('sends one request, however often the button is clicked meanwhile', async () => {
    const { page, close } = await openForMember();
    const sent = watch(page);
    // Not held by the CRM: after some seconds the hand-off is accepted, and the button is another one.
    const held = Promise.withResolvers<void>();
    await page.route('**/api/v1/handoff', (route) => held.promise.then(() => route.continue()), { times: 1 });
    const button = page.getByRole('article').nth(1).getByRole('button', { name: 'Hand off as quote' });
    await button.dblclick();
    await textOf(page.getByRole('status'), /Handing off/);
    await button.click();
    await button.press('Enter');
    held.resolve();
    await textOf(page.getByRole('status'), /created/);
    // A double click whose first half is answered before its second.
    await page.getByRole('article').nth(2).getByRole('button', { name: 'Hand off as booking' }).dblclick();
    await textOf(page.getByRole('status'), /Booking created/);
    assert.equal(sent.length, 2);
    await close();
  });

  test('repeats under the same key after a failure, also after a reload', async () => {
    const { page, close } = await openForMember();
    const sent = watch(page);
    // The CRM's failures are the service's to wait for; what fails here is the way to the service.
    let isBroken = true;
    await page.route('**/api/v1/handoff', (route) =>
      isBroken
        ? route.fulfill({ status: 503, headers: { 'x-request-id': 'lost-1' }, body: 'no gateway' })
        : route.continue(),
    );
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    const alert = page.getByRole('alert');
    const problem = await textOf(alert, /Request ID/);
    const tryAgain = page.getByRole('button', { name: 'Try again' });
    await tryAgain.click();
    await textOf(alert, /Request ID/);
    await page.reload();
    await signIn(page, gateway.admin);
    await page.getByRole('article').first().waitFor();
    assert.equal(await tryAgain.count(), 0, 'the pick of another consumer is offered');
    await page.reload();
    await signIn(page, gateway.console);
    await textOf(alert, new RegExp(problem.slice(0, 20)));
    isBroken = false;
    await tryAgain.click();
    const text = await textOf(page.getByRole('status'), /created/);
    assert.ok(sent.length >= 3);
    assert.equal(new Set(sent.map(keyOf)).size, 1);
    assert.equal(new Set(sent.map((request) => request.postData())).size, 1);
    const externalId = /[\da-f]{8}-[\da-f-]{27}/.exec(text)?.[0] ?? '';
    assert.equal((await gateway.org.records('Quote__c', { External_Id__c: externalId })).length, 1);
    await page.reload();
    await signIn(page, gateway.console);
    await page.getByRole('article').first().waitFor();
    assert.equal(await tryAgain.count(), 0);
    await close();
  });

  test('asks before it hands the same result off again, and keeps the focus', async () => {
    const { page, check, close } = await openForMember();
    const sent = watch(page);
    const card = page.getByRole('article').first();
    // A key reaches no button that is disabled.
    await card.getByRole('button', { name: 'Hand off as quote', disabled: false }).press('Enter');
    await textOf(page.getByRole('status'), /Quote created/);
    assert.equal(sent[0]?.headers()['prefer'], 'respond-async, wait=5');
    const again = card.getByRole('button', { name: 'Hand off again…' });
    await again.and(page.locator(':focus')).waitFor();
    assert.equal(await card.getByRole('button', { name: /^Hand off as/ }).count(), 0);
    const dialog = page.getByRole('dialog', { name: 'Hand off again?' });
    await again.click();
    await check('hand off again');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'hidden' });
    assert.equal(sent.length, 1);
    await again.click();
    await dialog.getByRole('button', { name: 'Hand off as booking' }).click();
    await textOf(card.getByRole('status'), /Booking created/);
    assert.equal(new Set(sent.map(keyOf)).size, 2);
    await close();
  });

  test('accepts a hand-off while the CRM is down, and says so', async () => {
    const { page, check, close } = await openForMember();
    const card = page.getByRole('article').nth(1);
    const button = card.getByRole('button', { name: 'Hand off as booking', disabled: false });
    await button.waitFor();
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    await button.click();
    await textOf(
      card.getByRole('status'),
      /Booking accepted and saved\. Salesforce isn't responding; we'll create the booking/s,
    );
    await check('hand-off accepted');
    const name = (await card.getByRole('heading').textContent()) ?? '';
    await card.getByRole('status').getByRole('link').click();
    await page.getByRole('heading', { level: 1, name }).waitFor();
    await page.getByRole('link', { name: 'Waiting' }).first().click();
    const waiting = page.getByRole('region', { name: 'Waiting hand-offs' }).getByRole('row');
    await textOf(waiting.filter({ hasText: name }), /waiting/);
    await gateway.org.disarm();
    const done = page.getByRole('region', { name: 'Done hand-offs' });
    // A busy service may have accepted one of the same name before.
    await done.getByRole('link', { name }).first().click();
    await page.getByRole('heading', { level: 1, name }).waitFor();
    await close();
  });

  test('shows what a result says, and nothing that it does not', async () => {
    const { page, close } = await open();
    await page.getByRole('button', { name: 'Load results…' }).click();
    const results = [
      {
        name: 'No such day',
        source: 'x',
        details: { check_in: '2027-02-30', valid_until: '2027-02-30T10:00:00Z' },
      },
      {
        name: 'Lines',
        source: 'x',
        details: { currency: 'EUR', fees: [{ amount: '12.00' }, { amount: '3.00' }] },
      },
    ];
    await page.getByLabel('Paste JSON').fill(JSON.stringify(results));
    await page.getByRole('button', { name: 'Use results' }).click();
    const noDay = page.getByRole('article', { name: 'No such day' });
    assert.match((await noDay.textContent()) ?? '', /2027-02-30/);
    assert.doesNotMatch((await noDay.textContent()) ?? '', /Mar|offer ends/);
    assert.doesNotMatch(
      (await page.getByRole('article', { name: 'Lines' }).textContent()) ?? '',
      /12\.00|EUR/,
    );
    await close();
  });

  test('takes pasted results digit for digit, guesses what they do not say, and shows text as text', async () => {
    const { page, close } = await openForMember();
    await page.getByRole('button', { name: 'Load results…' }).click();
    const json = `[
      {"name": "<img src=x onerror=alert(1)>", "source": "own", "details": {"n": 12345678901234567890, "d": 0.10000000000000000555, "z": 1.50}},
      {"title": "Night train", "provider": {"name": "rails"}, "total_amount": 79.90, "currency": "EUR", "id": 9007199254740993}
    ]`;
    await page.getByLabel('Paste JSON').fill('{"a":');
    await page.getByRole('button', { name: 'Use results' }).click();
    await textOf(page.getByRole('alert'), /This isn't JSON/);
    await page.getByLabel('Paste JSON').fill(json);
    await page.getByRole('button', { name: 'Use results' }).click();
    const [first, second] = [page.getByRole('article').nth(0), page.getByRole('article').nth(1)];
    assert.equal(await first.getByRole('heading').textContent(), '<img src=x onerror=alert(1)>');
    await textOf(second, /Night train.*rails.*79\.90 EUR/s);
    await second.getByLabel('Name').fill('Night train to Vienna');
    const sent = watch(page);
    for (const card of [first, second]) {
      await card.getByRole('button', { name: 'Hand off as quote' }).click();
      await textOf(card.getByRole('status'), /created/);
    }
    assert.match(
      sent[0]?.postData() ?? '',
      /"details":\{"n": 12345678901234567890, "d": 0\.10000000000000000555, "z": 1\.50\}/,
    );
    assert.match(
      sent[1]?.postData() ?? '',
      /"name":"Night train to Vienna","source":"rails".*9007199254740993/,
    );
    await goTo(page, 'Records');
    await page.getByRole('link', { name: '<img src=x' }).click();
    await page.getByRole('button', { name: 'Raw text', exact: true }).click();
    await textOf(page.getByRole('region', { name: 'details' }), /"n": 12345678901234567890/);
    await close();
  });

  test('asks for the External ID where members may not be read, and says what is missing', async () => {
    const consumer = await gateway.newConsumer({ resource: 'bookings', actions: ['read', 'write'] });
    const { page, close } = await open(consumer);
    const sent = watch(page);
    const card = page.getByRole('article').first();
    await card.waitFor();
    assert.equal(await card.getByRole('button', { name: 'Hand off as quote' }).count(), 0);
    await card.getByRole('button', { name: 'Hand off as booking' }).click();
    await textOf(page.getByRole('alert'), /Choose a member first/);
    assert.equal(sent.length, 0);
    await page.getByRole('textbox', { name: 'Member' }).fill(gateway.org.memberId);
    await card.getByRole('button', { name: 'Hand off as booking' }).click();
    await textOf(page.getByRole('status'), /Booking created/);
    await close();
  });
});
