import { randomUUID } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { goTo, signIn } from '../test/features/console/pages.ts';
import { findChromium, startBrowser, type TestBrowser } from '../test/support/browser.ts';
import { startGateway, type TestGateway } from '../test/support/gateway.ts';

/*
 * Takes the pictures of README.md and docs from a service that it starts itself: npm run pictures. A folder may be named, to look
 * at them first: npm run pictures -- test-output/pictures
 */

const folder = resolve(process.argv[2] ?? join(import.meta.dirname, '../docs/images'));

interface Scene {
  file: string;
  size: { width: number; height: number };
  env?: NodeJS.ProcessEnv;
  /** Leads the signed-in page to what is to be seen. */
  show(page: Page, gateway: TestGateway): Promise<void>;
}

const scenes: Scene[] = [
  { file: 'console.png', size: { width: 1280, height: 760 }, show: showHandOff },
  {
    file: 'record.png',
    size: { width: 900, height: 1008 },
    env: { SIMULATED_ORG: 'travel' },
    show: showRecord,
  },
];

/** Search results, one of them handed off as a quote. */
async function showHandOff(page: Page): Promise<void> {
  await goTo(page, 'Hand-off');
  await chooseMember(page);
  const card = page.getByRole('article').first();
  await card.getByRole('button', { name: 'Hand off as quote' }).click();
  await card
    .getByRole('status')
    .filter({ hasText: /created/ })
    .waitFor();
  await page.getByRole('heading', { level: 1 }).scrollIntoViewIfNeeded();
}

/** Where nobody is chosen yet. */
async function chooseMember(page: Page): Promise<void> {
  const member = page.getByRole('combobox', { name: 'Member' });
  await member.waitFor();
  if ((await member.inputValue()) !== '') return;
  await member.fill('Okafor');
  await page.getByRole('option').first().click();
}

/** A quote of an org that has fields of its own. */
async function showRecord(page: Page, gateway: TestGateway): Promise<void> {
  const details = { net: 612.4, currency: 'EUR', nights: 7, checkIn: '2027-04-12', board: 'Half board' };
  const result = { name: 'Hotel Miramar: double room with sea view', source: 'hotelbeds', details };
  const trip = { trip_id: randomUUID(), member_id: gateway.org.memberId };
  const body = { type: 'quote', ...trip, result };
  const made = await gateway.request('/api/v1/handoff', { body });
  if (made.status !== 201) throw new Error(`The hand-off was answered ${made.status}.`);
  const { external_id } = (await made.json()) as { external_id: string };
  const changed = await gateway.request(`/v1/quotes/${external_id}`, {
    method: 'PATCH',
    headers: { 'idempotency-key': randomUUID() },
    body: { budget: 1500.5, extras: ['Parking', 'Transfer'], flexible: true },
  });
  if (changed.status !== 200) throw new Error(`The change was answered ${changed.status}.`);
  await goTo(page, 'Records');
  await page.getByRole('link', { name: result.name }).first().click();
  await page
    .getByText(/^budget$/i)
    .first()
    .waitFor();
}

async function take(browser: TestBrowser, { file, size, env, show }: Scene): Promise<void> {
  const gateway = await startGateway({ CHANGES_POLL_SECONDS: '2', ...env });
  try {
    const { page, close } = await browser.open(`${gateway.url}/console/`);
    await page.setViewportSize(size);
    await signIn(page, gateway.console);
    await show(page, gateway);
    // The pointer changes the look of what it is over.
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(folder, file) });
    await close();
    console.log(`wrote ${join(folder, file)}`);
  } finally {
    await gateway.stop();
  }
}

const program = findChromium();
if (program === undefined) {
  console.error('There is no Chromium: install it, or name the program in CHROMIUM.');
  process.exitCode = 1;
} else {
  const browser = await startBrowser(program);
  for (const scene of scenes) await take(browser, scene);
  await browser.close();
}
