import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { assertKeepsNoCredentials } from './pages.ts';

const brands = /scalar|configure|share|deploy|powered by|\bMCP\b|ask ai|\bagent\b|claude|chatgpt|cursor ide/i;

describe('the readable page of the documentation in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '3600' });

  test("shows the introduction, and nothing of the library's own", async () => {
    const { page, close, picture } = await browser.open(`${gateway.url}/v1/docs`);
    await page.getByRole('heading', { name: 'First call' }).waitFor();
    for (const name of ['Authentication', 'Idempotency', 'Paging', 'Errors'])
      await page.getByRole('heading', { name, exact: true }).first().waitFor();
    assert.equal(await page.locator('html').getAttribute('lang'), 'en');
    await picture('docs');
    assert.doesNotMatch(await page.evaluate<string>('document.body.innerText'), brands);
    assert.equal(await page.locator('a[href*="scalar.com"]:visible').count(), 0);
    await close();
  });

  test('sends the example of an operation as it is, each time under a new key', async () => {
    const { page, picture, close } = await browser.open(`${gateway.url}/v1/docs#tag/quotes/POST/v1/quotes`);
    await page.getByRole('button', { name: 'Test Request (post /v1/quotes)' }).click();
    const dialog = page.getByRole('dialog');
    // Both boxes for credentials have the same name.
    const [key, secret] = [dialog.locator('input').nth(0), dialog.locator('input').nth(1)];
    await key.fill(gateway.console.apiKey);
    await secret.fill(gateway.console.apiSecret);
    const send = async () => {
      const answer = page.waitForResponse((response) => response.request().method() === 'POST');
      await dialog.getByRole('button', { name: 'Send post request' }).click();
      const response = await answer;
      assert.equal(response.status(), 201, await response.text());
      return ((await response.json()) as { id: string }).id;
    };
    const first = await send();
    await dialog.getByText(first).waitFor();
    const second = await send();
    await dialog.getByText(second).waitFor();
    assert.equal(await page.locator('a[href*="scalar.com"]:visible').count(), 0);
    assert.notEqual(second, first);
    await assertKeepsNoCredentials(page, gateway.console);
    assert.deepEqual(await page.evaluate<object[]>('indexedDB.databases()'), []);
    await picture('docs-request');
    assert.doesNotMatch(await page.evaluate<string>('document.body.innerText'), brands);
    await close();
  });
});
