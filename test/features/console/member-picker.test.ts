import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { chooseMember, openSignedIn, signIn, textOf } from './pages.ts';

interface Box {
  checkValidity(): boolean;
}

describe('finding a member for a hand-off', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway();
  const zelda = randomUUID();
  before(async () => {
    const named = (id: string, FirstName: string, LastName: string) => ({
      ...{ External_Id__c: id, FirstName, LastName, Email: `${FirstName.toLowerCase()}@example.com` },
    });
    await gateway.org.insert('Contact', [
      named(zelda, 'Zelda', 'Quirke'),
      ...Array.from({ length: 120 }, (_, n) => named(randomUUID(), `Traveller${n}`, 'Quirkson')),
    ]);
  });

  const open = async () => {
    const opened = await openSignedIn(browser, gateway, gateway.console);
    const { page } = opened;
    await page.getByRole('article').first().waitFor();
    return {
      ...opened,
      box: page.getByRole('combobox', { name: 'Member' }),
      options: page.getByRole('listbox', { name: 'Members' }).getByRole('option'),
    };
  };
  const handOff = async (page: Page) => {
    const card = page.getByRole('article').first();
    await card.getByRole('button', { name: 'Hand off as quote', disabled: false }).click();
    const text = await textOf(card.getByRole('status'), /Quote created/);
    const [record] = await gateway.org.records('Quote__c', {
      External_Id__c: /[\da-f]{8}-[\da-f-]{27}/.exec(text)?.[0] ?? '',
    });
    const [member] = await gateway.org.records('Contact', { Id: record?.['Member__c'] as string });
    return member?.['External_Id__c'];
  };

  test('by a part of the name, with the keyboard alone', async () => {
    const { page, check, box, options, close } = await open();
    await box.focus();
    await page.keyboard.type('quirk');
    await options.nth(7).waitFor();
    await page.getByText('Showing the first 8 matches. Type more to narrow the list.').waitFor();
    await check('member-picker');
    await page.keyboard.type('e');
    await options.nth(1).waitFor({ state: 'detached' });
    await textOf(options, /Quirke, Zelda.*zelda@example\.com/);
    assert.equal(await options.getAttribute('aria-selected'), 'true');
    assert.equal(await box.getAttribute('aria-activedescendant'), await options.getAttribute('id'));
    await page.keyboard.press('Enter');
    await options.waitFor({ state: 'detached' });
    assert.equal(await box.inputValue(), 'Quirke, Zelda');
    assert.equal(await handOff(page), zelda);
    await close();
  });

  test('with arrow keys and the pointer, and Escape closes the list', async () => {
    const { page, box, options, close } = await open();
    await box.focus();
    await page.keyboard.press('ArrowDown');
    await options.nth(7).waitFor();
    await page.keyboard.press('ArrowUp');
    await page.locator('[role=option][aria-selected=true]:last-child').waitFor();
    await page.keyboard.press('ArrowDown');
    await page.locator('[role=option][aria-selected=true]:first-child').waitFor();
    await page.keyboard.press('Escape');
    await options.first().waitFor({ state: 'detached' });
    await box.fill('ZELDA@');
    await options.click();
    assert.equal(await box.inputValue(), 'Quirke, Zelda');
    assert.equal(await handOff(page), zelda);
    await close();
  });

  test('hands nothing off to the one before while somebody types', async () => {
    const { page, box, close } = await open();
    await chooseMember(page);
    await box.fill('somebody else');
    const card = page.getByRole('article').first();
    await card.getByRole('button', { name: 'Hand off as quote', disabled: false }).click();
    await textOf(page.getByRole('alert'), /Choose a member first/);
    await page.getByText('No members match.').waitFor();
    await box.fill(zelda);
    await page.getByText('Quirke, Zelda').waitFor();
    assert.equal(await handOff(page), zelda);
    await close();
  });

  test('in place of the one who is chosen while the list is on its way', async () => {
    const address = `${gateway.url}/console/#/hand-off?member_id=${zelda}`;
    const { page, close } = await browser.open(address);
    const held = Promise.withResolvers<void>();
    await page.route(/\/v1\/members/, (route) => held.promise.then(() => route.continue()));
    await signIn(page, gateway.console);
    const box = page.getByRole('combobox', { name: 'Member' });
    await box.focus();
    held.resolve();
    await page.getByText('zelda@example.com').waitFor();
    assert.equal(await box.inputValue(), 'Quirke, Zelda');
    await page.keyboard.type('traveller');
    assert.equal(await box.inputValue(), 'traveller');
    await close();
  });

  test('asks once at a time, and shows no answer for an older text', async () => {
    const { page, box, options, close } = await open();
    await page.getByRole('button', { name: 'Hand off as quote', disabled: false }).first().waitFor();
    await page.clock.install();
    const asked: (string | null)[] = [];
    const first = Promise.withResolvers<void>();
    const isHeld = Promise.withResolvers<void>();
    await page.route('**/v1/members?*q=*', async (route) => {
      asked.push(new URL(route.request().url()).searchParams.get('q'));
      isHeld.resolve();
      if (asked.length === 1) await first.promise;
      await route.continue();
    });
    await box.fill('traveller');
    await isHeld.promise;
    for (const text of ['quirkson', 'zel', 'zelda', 'zelda q']) await box.fill(text);
    await page.getByText('Searching…').waitFor();
    assert.equal(await options.count(), 0);
    first.resolve();
    await textOf(options, /Quirke, Zelda/);
    // Nor once more when the pause after the last key is over.
    await page.clock.runFor(1000);
    assert.deepEqual(asked, ['traveller', 'zelda q']);
    await close();
  });

  test('asks for a text that the service takes', async () => {
    const { page, box, close } = await open();
    for (const text of ['q', '😀']) {
      await box.fill(text);
      await page.getByText('Type at least two letters.').waitFor();
    }
    await page.evaluate(`location.hash = '#/records/quotes'`);
    const search = page.getByRole('searchbox', { name: 'Search' });
    for (const [text, isValid] of [
      ['a', false],
      [' a ', false],
      ['😀', false],
      ['ab', true],
      [' é😀', true],
      ['', true],
    ] as const) {
      await search.fill(text);
      const isTaken = search.evaluate((box) => (box as unknown as Box).checkValidity());
      assert.equal(await isTaken, isValid, text);
    }
    await close();
  });

  test('says so where the members cannot be searched, and takes an External ID', async () => {
    const { page, box, close } = await open();
    await page.route('**/v1/members?*q=*', (route) => route.fulfill({ status: 502, body: 'Bad gateway' }));
    await box.fill('quirk');
    await textOf(page.getByRole('alert'), /You can still enter a member's External ID/);
    await box.fill(zelda);
    assert.equal(await handOff(page), zelda);
    await close();
  });
});
