import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { findChromium, startBrowser, type TestBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, startGateway, type TestGateway } from '../../support/gateway.ts';
import { accept, readHandoff } from '../../support/handoffs.ts';
import { type Company, clientId, clientSecret, startCompany } from '../../support/openid.ts';
import { chooseMember, goTo, signIn } from './pages.ts';

const program = findChromium();

describe('people at the console', {
  skip: program === undefined && 'there is no Chromium on this machine',
}, () => {
  let company: Company;
  let gateway: TestGateway;
  let browser: TestBrowser;
  let env: NodeJS.ProcessEnv;
  let desk: Credentials;
  let leads: Credentials;
  before(async () => {
    company = await startCompany();
    env = {
      PEOPLE_ISSUER: company.issuer,
      PEOPLE_CLIENT_ID: clientId,
      PEOPLE_LABEL: 'Example Travel',
    };
    gateway = await startGateway(env);
    company.serve(gateway.url);
    company.person = { sub: 'marta', name: 'Marta Ruiz', groups: ['desk', 'leads'] };
    const secrets = `${gateway.dataDir}/secrets/people/dev`;
    await mkdir(secrets, { recursive: true, mode: 0o700 });
    await writeFile(`${secrets}/client-secret`, clientSecret, { mode: 0o600 });
    desk = await named('Advisors', 'desk');
    leads = await named('Leads', 'leads');
    browser = await startBrowser(program as string);
  });
  after(async () => {
    await browser.close();
    await gateway.stop();
    await company.stop();
  });

  /** A consumer as which people of a group may act. */
  async function named(name: string, group: string): Promise<Credentials> {
    const made = await gateway.newConsumer(
      { resource: 'quotes', actions: ['read', 'write'] },
      { resource: 'members', actions: ['read'] },
    );
    const body = { name, people: [{ claim: 'groups', value: group }] };
    const path = `/v1/admin/consumers/${made.id}`;
    assert.equal((await gateway.request(path, { method: 'PATCH', as: gateway.admin, body })).status, 200);
    return made;
  }
  /** Goes with the window: the sign-in of the company is another site. */
  const end = (page: Page) => page.context().close();
  const enter = async (page: Page) => {
    await page.getByRole('button', { name: 'Sign in with Example Travel' }).click();
    await page.getByText('Marta Ruiz as').waitFor();
  };

  test('sign in with a button, stay over a reload, act as another consumer, and sign out', async () => {
    const { page, check } = await browser.open(`${gateway.url}/console/`);
    const button = page.getByRole('button', { name: 'Sign in with Example Travel' });
    await button.waitFor();
    assert.equal(await page.getByLabel('API key').isVisible(), false);
    await check('sign-in with an account');
    await enter(page);
    await goTo(page, 'Records');
    await check('signed in as a person');
    await page.reload();
    const acting = page.getByLabel('Act as');
    await acting.waitFor();
    assert.equal(await acting.inputValue(), desk.id);
    await acting.selectOption(leads.id);
    await eventually(async () => assert.equal(await acting.inputValue(), leads.id));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(`${company.issuer}/**`);
    await page.goto(`${gateway.url}/console/`);
    await button.waitFor();
    await end(page);
  });

  /** A hand-off that waits, and the inbox of somebody who acts as `desk`. */
  async function openInbox(name: string) {
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const result = { name, source: 'x', details: {} };
    const id = await accept(gateway, { member_id: gateway.org.memberId, result }, { as: agent });
    const { page } = await browser.open(`${gateway.url}/console/`);
    await enter(page);
    await page.getByLabel('Act as').selectOption(desk.id);
    await goTo(page, 'Waiting');
    const row = page.getByRole('row').filter({ hasText: name });
    await row.waitFor();
    return { page, row, id };
  }

  test('come back to the page that they were on when their session ended', async () => {
    const { page } = await browser.open(`${gateway.url}/console/`);
    await enter(page);
    await page.context().clearCookies({ name: /handoff/ });
    await page.getByRole('link', { name: 'Records', exact: true }).click();
    await page.getByRole('button', { name: 'Sign in with Example Travel' }).waitFor();
    await enter(page);
    await page.getByRole('heading', { level: 1, name: 'Records' }).waitFor();
    await end(page);
  });

  test('find their unfinished hand-off again until they sign out, and nobody else finds it', async () => {
    const { page } = await browser.open(`${gateway.url}/console/`);
    const tryAgain = page.getByRole('button', { name: 'Try again' });
    const endSession = async () => {
      await page.context().clearCookies({ name: /handoff/ });
      await page.getByRole('link', { name: 'Records', exact: true }).click();
      await page.getByRole('button', { name: 'Sign in with Example Travel' }).waitFor();
    };
    const signOut = async () => {
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.waitForURL(`${company.issuer}/**`);
      await page.context().clearCookies({ name: /^_session/ });
      await page.goto(`${gateway.url}/console/`);
    };
    await page.route('**/api/v1/handoff', (route) => route.fulfill({ status: 503, body: 'no gateway' }));
    await enter(page);
    await chooseMember(page);
    await page.getByRole('article').first().getByRole('button', { name: 'Hand off as quote' }).click();
    await tryAgain.waitFor();
    await page.reload();
    await tryAgain.waitFor();
    await endSession();
    await enter(page);
    await goTo(page, 'Hand-off');
    await tryAgain.waitFor();
    await endSession();
    await page.context().clearCookies({ name: /^_session/ });
    const marta = company.person;
    company.person = { sub: 'ines', name: 'Inés Gil', groups: ['desk', 'leads'] };
    await page.getByRole('button', { name: 'Sign in with Example Travel' }).click();
    await page.getByText('Inés Gil as').waitFor();
    company.person = marta;
    assert.equal(await page.getByLabel('Act as').inputValue(), desk.id);
    await goTo(page, 'Hand-off');
    await page.getByRole('article').first().waitFor();
    assert.equal(await tryAgain.count(), 0, 'the pick of another person is offered');
    await signOut();
    await enter(page);
    await tryAgain.waitFor();
    await page.getByLabel('Act as').selectOption(leads.id);
    await tryAgain.waitFor({ state: 'detached' });
    await signOut();
    assert.equal(await page.evaluate<string>("sessionStorage.getItem('handoff.picks')"), '[]');
    await end(page);
  });

  test('an approval is sent as the consumer that gave it, before another one acts', async () => {
    const { page, row, id } = await openInbox('Given by the desk');
    await row.getByRole('button', { name: 'Approve' }).click();
    await row.getByRole('button', { name: 'Undo' }).waitFor();
    await page.getByLabel('Act as').selectOption(leads.id);
    await eventually(async () => {
      const { approval } = await readHandoff(gateway, id);
      assert.equal(approval?.decided_by?.consumer_id, desk.id);
    });
    await eventually(async () => assert.equal(await page.getByLabel('Act as').inputValue(), leads.id));
    await end(page);
  });

  test('whose approval gets no answer keep the consumer that gave it, and are told', async () => {
    const { page, row } = await openInbox('Unanswered');
    await page.clock.install();
    await page.route('**/approve', () => {});
    await row.getByRole('button', { name: 'Approve' }).click();
    await row.getByRole('button', { name: 'Undo' }).waitFor();
    const acting = page.getByLabel('Act as');
    await Promise.all([page.waitForRequest('**/approve'), acting.selectOption(leads.id)]);
    await page.clock.runFor(4000);
    await page.getByText("You're still acting as Advisors. Your approval of Unanswered may not").waitFor();
    assert.equal(await acting.inputValue(), desk.id);
    await end(page);
  });

  test('a tab does nothing as a consumer that was chosen in another tab', async () => {
    const { page, row, id } = await openInbox('Seen by the desk');
    const other = await page.context().newPage();
    await other.goto(`${gateway.url}/console/`);
    await other.getByLabel('Act as').waitFor();
    await row.getByRole('button', { name: 'Approve' }).click();
    await row.getByRole('button', { name: 'Undo' }).waitFor();
    await other.getByLabel('Act as').selectOption(leads.id);
    await page.getByText("You're acting as another consumer in another tab now").first().waitFor();
    await page.getByText("Couldn't approve Seen by the desk").first().waitFor();
    assert.equal((await readHandoff(gateway, id)).status, 'awaiting_approval');
    await end(page);
  });

  test('a tab does nothing as somebody who signed in in another tab since', async () => {
    const { page, row, id } = await openInbox('Seen by Marta');
    const other = await page.context().newPage();
    await other.goto(`${gateway.url}/console/`);
    await other.getByRole('button', { name: 'Sign out' }).click();
    await other.waitForURL(`${company.issuer}/**`);
    // Signed out at the company, too.
    await other.context().clearCookies({ name: /^_session/ });
    const marta = company.person;
    company.person = { sub: 'ines', name: 'Inés Gil', groups: ['desk', 'leads'] };
    await other.goto(`${gateway.url}/console/`);
    await other.getByRole('button', { name: 'Sign in with Example Travel' }).click();
    await other.getByText('Inés Gil as').waitFor();
    await other.getByLabel('Act as').selectOption(desk.id);
    await eventually(async () => assert.equal(await other.getByLabel('Act as').inputValue(), desk.id));
    company.person = marta;
    await row.getByRole('button', { name: 'Approve' }).click();
    await goTo(page, 'Records');
    await page.getByText('Someone else has signed in in another tab').first().waitFor();
    assert.equal((await readHandoff(gateway, id)).status, 'awaiting_approval');
    const acting = page.getByLabel('Act as');
    await acting.selectOption(leads.id);
    await page.getByText("You're still acting as Advisors. Someone else has signed in").first().waitFor();
    assert.equal(await acting.inputValue(), desk.id);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in with Example Travel' }).waitFor();
    await other.reload();
    await other.getByText('Inés Gil as').waitFor();
    assert.equal(await other.getByLabel('Act as').inputValue(), desk.id);
    await page.reload();
    await page.getByText('Inés Gil as').waitFor();
    await end(page);
  });

  test('an approval that is given while another consumer is chosen is not lost unsaid', async () => {
    const { page, row, id } = await openInbox('Given on the way');
    const acting = page.getByLabel('Act as');
    const choice = Promise.withResolvers<void>();
    await page.route('**/console/session', async (route) => {
      await choice.promise;
      await route.fulfill({ status: 503, json: { detail: 'The database is away.' } });
    });
    await Promise.all([page.waitForRequest('**/console/session'), acting.selectOption(leads.id)]);
    await row.getByRole('button', { name: 'Approve' }).click();
    await page.getByText("Didn't approve Given on the way, because you're leaving.").first().waitFor();
    choice.resolve();
    await page.getByText("You're still acting as").first().waitFor();
    assert.equal((await readHandoff(gateway, id)).status, 'awaiting_approval');
    await row.getByRole('button', { name: 'Approve' }).click();
    await row.getByRole('button', { name: 'Undo' }).waitFor();
    await end(page);
  });

  test('a key is still taken, from a form that is folded', async () => {
    const opened = await browser.open(`${gateway.url}/console/`);
    await opened.page.getByText('Use an API key').click();
    await signIn(opened.page, gateway.console);
    await opened.page.getByRole('button', { name: 'Sign out' }).waitFor();
    await opened.close();
  });

  test('with people.only there is no form for keys, which count at the API as before', async () => {
    const strict = await startGateway({
      ...env,
      SECRETS_DIR: `${gateway.dataDir}/secrets`,
      PEOPLE_ONLY: 'true',
    });
    const opened = await browser.open(`${strict.url}/console/`);
    await opened.page.getByRole('button', { name: 'Sign in with Example Travel' }).waitFor();
    assert.equal(await opened.page.getByText('Use an API key').count(), 0);
    assert.equal(await opened.page.getByLabel('API key').count(), 0);
    assert.equal((await strict.request('/v1/quotes', { as: desk })).status, 200);
    await opened.close();
    await strict.stop();
  });

  test('administrators say in the form who may act as a consumer', async () => {
    const opened = await browser.open(`${gateway.url}/console/`);
    const { page } = opened;
    await page.getByText('Use an API key').click();
    await signIn(page, gateway.admin);
    await goTo(page, 'Consumers');
    await page.getByRole('link', { name: 'Advisors' }).click();
    await page.getByRole('button', { name: 'Edit…' }).click();
    const people = page.getByLabel('People who can act as this consumer');
    assert.equal(await people.inputValue(), 'groups=desk');
    await people.fill('groups=desk\nemail=ana@example.com');
    await page.getByLabel('Allowance (requests)').fill('10000');
    await page.getByLabel('Allowance per').selectOption('month');
    const names = page.getByLabel('Client certificates');
    await names.fill('*.partner.example');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText(/“\*\.partner\.example” must be a DNS name/).waitFor();
    await names.fill('');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await eventually(async () => {
      const shown = await gateway.request(`/v1/admin/consumers/${desk.id}`, { as: gateway.admin });
      const { people: entries, allowance } = (await shown.json()) as { people: object; allowance: object };
      assert.deepEqual(entries, [
        { claim: 'groups', value: 'desk' },
        { claim: 'email', value: 'ana@example.com' },
      ]);
      assert.partialDeepStrictEqual(allowance, { requests: 10_000, per: 'month', used: 0 });
    });
    await opened.close();
  });

  test('who does nothing in any tab is warned, and signed out', async () => {
    // Of its own: others must not be signed out while the machine is busy.
    const hasty = await startGateway({
      ...env,
      SECRETS_DIR: `${gateway.dataDir}/secrets`,
      PEOPLE_IDLE_MINUTES: '0.25',
    });
    company.serve(hasty.url);
    const { page } = await browser.open(`${hasty.url}/console/`);
    await enter(page);
    const other = await page.context().newPage();
    await other.goto(`${hasty.url}/console/`);
    await other.getByRole('heading', { level: 1 }).waitFor();
    await page.getByText(/You'll be signed out in \d+ seconds/).waitFor();
    await other.keyboard.press('Shift');
    await page.getByText(/You'll be signed out in/).waitFor({ state: 'detached' });
    await other.getByText(/You'll be signed out in/).waitFor({ state: 'detached' });
    await other.close();
    await page.getByText(/You'll be signed out in \d+ seconds/).waitFor();
    await page.getByRole('button', { name: 'Stay signed in' }).click();
    await page.getByText(/You'll be signed out in/).waitFor({ state: 'detached' });
    await page.getByText('You were inactive for too long.').waitFor();
    await page.getByRole('button', { name: 'Sign in with Example Travel' }).waitFor();
    assert.equal(
      (await page.context().cookies()).some(({ name }) => name === 'handoff'),
      false,
    );
    await end(page);
    await hasty.stop();
  });
});
