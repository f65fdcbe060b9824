import assert from 'node:assert/strict';
import type { Locator, Page } from 'playwright-core';
import type { TestBrowser, TestPage } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import type { Credentials, TestGateway } from '../../support/gateway.ts';

type Pair = Pick<Credentials, 'apiKey' | 'apiSecret'>;

export async function signIn(page: Page, { apiKey, apiSecret }: Pair): Promise<void> {
  await page.getByLabel('API key').fill(apiKey);
  await page.getByLabel('API secret').fill(apiSecret);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

/** The console of a gateway in a window of its own, with somebody signed in; `hash` as in its address. */
export async function openSignedIn(
  browser: TestBrowser,
  gateway: Pick<TestGateway, 'url'>,
  as: Pair,
  hash = '',
): Promise<TestPage> {
  const opened = await browser.open(`${gateway.url}/console/${hash}`);
  await signIn(opened.page, as);
  return opened;
}

/** Leads to a page by its link. */
export async function goTo(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** Chooses the first member that `Hand-off` suggests. */
export async function chooseMember(page: Page): Promise<void> {
  await page.getByRole('combobox', { name: 'Member' }).click();
  await page.getByRole('listbox', { name: 'Members' }).getByRole('option').first().click();
}

/** Waits until the element has a text like this, and returns its text. */
export async function textOf(element: Locator, pattern: RegExp): Promise<string> {
  // One step: between two, the text may change.
  return (await element.filter({ hasText: pattern, visible: true }).textContent()) ?? '';
}

/** What the tab keeps: none of it may be a secret. */
export async function assertKeepsNoCredentials(page: Page, { apiKey, apiSecret }: Pair): Promise<void> {
  const kept = await page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])',
  );
  assert.ok(!kept.includes(apiSecret) && !kept.includes(apiKey), kept);
}

/** The page's time stands still from now on. */
export async function stopClock(page: Page): Promise<void> {
  await page.clock.install();
  // A busy machine may take longer than the second; the clock refuses that, but stands by then.
  await eventually(async () => page.clock.pauseAt((await page.evaluate<number>('Date.now()')) + 1000));
}
