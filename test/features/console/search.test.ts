import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { openSignedIn, signIn, textOf } from './pages.ts';

describe('the search on Records', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();
  const member = {
    External_Id__c: randomUUID(),
    FirstName: 'Nadia',
    LastName: 'Quirke',
    Email: 'nadia.q@example.com',
  };
  const trip = randomUUID();
  before(async () => {
    const [contact] = await gateway.org.insert('Contact', [member]);
    const quotes = Array.from({ length: 120 }, (_, n) => ({
      ...{ External_Id__c: randomUUID(), Trip_Id__c: trip, Member__c: contact },
      ...{ Name__c: `Villa ${String(n).padStart(3, '0')}`, Source__c: 'searched' },
    }));
    await gateway.org.insert('Quote__c', quotes);
    await gateway.org.insert('Booking__c', [
      { External_Id__c: randomUUID(), Trip_Id__c: trip, Name__c: 'Villa Aurora', Source__c: 'searched' },
    ]);
  });

  test('finds in the other lists too: an e-mail address on the tab of quotes leads to the member', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.console, '#/records/quotes');
    const box = page.getByRole('searchbox', { name: 'Search' });
    await box.fill(member.Email);
    await box.press('Enter');
    await page.getByText(`No quotes match “${member.Email}”.`).waitFor();
    await page.getByRole('link', { name: 'Nadia Quirke' }).waitFor();
    await check('search-elsewhere');
    await page.getByRole('link', { name: 'Show their quotes' }).click();
    await page
      .getByRole('link', { name: /^Villa \d/ })
      .first()
      .waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 'Nadia Quirke' }).waitFor();
    await box.fill('villa');
    await box.press('Enter');
    const tab = page.getByRole('group', { name: 'Kinds of records' }).getByRole('link', { name: 'Bookings' });
    await textOf(tab, /1/);
    await tab.click();
    await page.getByRole('link', { name: 'Villa Aurora' }).waitFor();
    assert.equal(await box.inputValue(), 'villa');
    assert.match(page.url(), /records\/bookings\?search=villa$/);
    await close();
  });

  test('asks only for what the consumer may read', async () => {
    const reader = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const { page, close } = await openSignedIn(browser, gateway, reader, '#/records/quotes');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const box = page.getByRole('searchbox', { name: 'Search' });
    await box.fill(member.Email);
    await box.press('Enter');
    await page.getByText(`No quotes match “${member.Email}”.`).waitFor();
    assert.deepEqual(
      asked.filter((url) => /\/v1\/(members|bookings)/.test(url)),
      [],
    );
    await close();
  });

  test('shows as many pages as the address says, after a reload and after Back', async () => {
    const { page, close } = await openSignedIn(
      browser,
      gateway,
      gateway.console,
      '#/records/quotes?search=villa',
    );
    const rows = page.getByRole('region', { name: 'Quotes' }).getByRole('link', { name: /^Villa \d/ });
    await rows.first().waitFor();
    const first = await rows.count();
    await page.getByRole('button', { name: 'Show more' }).click();
    await rows.nth(first).waitFor();
    const shown = await rows.count();
    await page.waitForURL(/search=villa&pages=2$/);
    await page.reload();
    await signIn(page, gateway.console);
    await rows.nth(shown - 1).waitFor();
    await rows.nth(shown - 1).click();
    await page.getByRole('heading', { level: 1, name: /^Villa/ }).waitFor();
    await page.goBack();
    await rows.nth(shown - 1).waitFor();
    // Another search begins at its first page.
    await page.getByRole('searchbox', { name: 'Search' }).fill('villa 4');
    await page.getByRole('searchbox', { name: 'Search' }).press('Enter');
    await page.waitForURL(/search=villa\+4$/);
    await close();
  });

  test('says at its field what is wrong with the ID of a trip, and shows no list meanwhile', async () => {
    for (const hash of ['#/records/quotes?trip_id=LIS-4', '#/reservations?trip_id=LIS-4']) {
      const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, hash);
      const field = page.getByRole('textbox', { name: 'Trip' });
      await textOf(page.getByRole('search'), /That's not a trip ID/);
      assert.equal(await field.getAttribute('aria-invalid'), 'true');
      assert.equal(await page.getByRole('alert').count(), 0);
      await check(`a wrong trip at ${hash.slice(2, 5)}`);
      await field.fill(trip);
      assert.equal(await field.getAttribute('aria-invalid'), null);
      await field.press('Enter');
      await page
        .getByText(hash.includes('quotes') ? /^Villa \d/ : 'No reservations match')
        .first()
        .waitFor();
      await close();
    }
    const { page, close } = await openSignedIn(browser, gateway, gateway.console, '#/hand-off');
    const field = page.getByRole('textbox', { name: 'Trip ID' });
    await field.fill('LIS-4');
    await textOf(page.getByRole('region', { name: 'Member and trip' }), /That's not a trip ID/);
    await page.getByRole('button', { name: 'New trip' }).click();
    assert.equal(await field.getAttribute('aria-invalid'), null);
    await close();
  });
});
