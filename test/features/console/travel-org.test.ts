import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { codeBlocks, readPage } from '../../docs/pages.ts';
import { findChromium, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { useGateway } from '../../support/gateway.ts';
import { chooseMember, signIn, textOf } from './pages.ts';

const run = promisify(execFile);
const program = findChromium();

/** What `SIMULATED_ORG=travel npm start` gives to somebody who tries it: the same pages and programs as with the package. */
describe('a start with the simulated travel org', () => {
  const gateway = useGateway({ SIMULATED_ORG: 'travel', CHANGES_POLL_SECONDS: '2' });

  const inOrg = async (key: string) =>
    (await gateway.org.records('Travel_Offer__c', { Gateway_Key__c: key }))[0] ?? {};

  test('the first hand-off makes an offer', async () => {
    const result = { name: 'Hotel Miramar', source: 'hotelbeds', details: { net: 612.4 } };
    const body = { type: 'quote', trip_id: randomUUID(), member_id: gateway.org.memberId, result };
    const answer = await gateway.request('/api/v1/handoff', { body });
    assert.equal(answer.status, 201);
    const { external_id } = (await answer.json()) as { external_id: string };
    const { Name, Supplier__c, Channel__c } = await inOrg(external_id);
    assert.deepEqual([Name, Supplier__c, Channel__c], ['Hotel Miramar', 'hotelbeds', 'Partner']);
  });

  test('the quickstart runs', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'handoff-travel-start-'));
    const [block] = codeBlocks(readPage('docs/quickstart.md')).filter(({ language }) => language === 'bash');
    await writeFile(join(folder, 'quickstart.sh'), block?.text ?? 'false');
    const { apiKey, apiSecret } = gateway.console;
    const credentials = { HANDOFF_API_KEY: apiKey, HANDOFF_API_SECRET: apiSecret };
    const { stdout } = await run('bash', ['quickstart.sh'], {
      cwd: folder,
      env: { ...process.env, HANDOFF_URL: gateway.url, ...credentials },
    });
    assert.match(
      stdout,
      /^handed off .*\nread Hotel Miramar\nlisted 1\ncreated .*, replayed true\nreceived quote\.created\n$/,
    );
    await rm(folder, { recursive: true });
  });

  describe('in a browser', { skip: program === undefined && 'there is no Chromium on this machine' }, () => {
    let browser: TestBrowser;
    before(async () => {
      browser = await startBrowser(program as string);
    });
    after(() => browser.close());

    test('the console hands each sample off that has not expired', async () => {
      const { page, close } = await browser.open(`${gateway.url}/console/`);
      await signIn(page, gateway.console);
      await chooseMember(page);
      const cards = page.getByRole('article');
      await cards.first().waitFor();
      const fresh = cards.filter({ hasNotText: 'This offer expired' });
      assert.ok((await fresh.count()) >= 10);
      for (const card of await fresh.all()) {
        await card.getByRole('button', { name: 'Hand off as quote' }).click();
        await textOf(card.getByRole('status'), /created/);
      }
      await close();
    });

    test("the page of a record shows the org's fields in words", async () => {
      const details = { net: 612.4, nights: 7, checkIn: '2027-04-12', board: 'Half board' };
      const result = { name: 'Hotel Miramar', source: 'hotelbeds', details };
      const body = { type: 'quote', trip_id: randomUUID(), member_id: gateway.org.memberId, result };
      const handedOff = await gateway.request('/api/v1/handoff', { body });
      const { external_id: id } = (await handedOff.json()) as { external_id: string };
      const changed = await gateway.request(`/v1/quotes/${id}`, {
        method: 'PATCH',
        body: { budget: 1500.5, extras: ['Parking', 'Transfer'], flexible: true },
        headers: { 'idempotency-key': randomUUID() },
      });
      assert.equal(changed.status, 200);
      const { page, check, close } = await browser.open(`${gateway.url}/console/#/records/quotes/${id}`);
      await signIn(page, gateway.console);
      await page.getByRole('term').filter({ hasText: 'Budget' }).first().waitFor();
      const overview = page.getByRole('region', { name: 'Overview' });
      const names = await overview.getByRole('term').allTextContents();
      const values = await overview.getByRole('definition').allTextContents();
      const shown = Object.fromEntries(names.map((name, index) => [name, values[index]]));
      const expected = {
        ...{
          Budget: '1,500.50',
          Nights: '7',
          'Check in': '12 Apr 2027',
          Board: 'Half board',
          Flexible: 'Yes',
        },
        ...{ Wishes: '–', 'Sales team': 'Online' },
      };
      assert.deepEqual({ ...shown, ...expected }, shown);
      assert.match(shown['Extras'] ?? '', /Transfer[^]*Parking/);
      await check('record-travel');
      await close();
    });
  });
});
