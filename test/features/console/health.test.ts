import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { useGateway } from '../../support/gateway.ts';
import { openSignedIn, stopClock, textOf } from './pages.ts';

describe('Health in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CRM_DAILY_CALL_BUDGET: '5000' });
  before(async () => {
    await gateway.request('/v1/quotes');
  });

  /** Answers of the service with a known hour. */
  const activity = () => {
    const now = Math.floor(Date.now() / 10_000) * 10_000;
    const at = (seconds: number) => new Date(now - seconds * 1000).toISOString();
    const series = (name: string, unit: string, values: number[]) => ({
      ...{ name, unit },
      points: values.map((value, i) => [at((values.length - i) * 600), value]),
    });
    return {
      interval_seconds: 10,
      series: [
        series('requests', 'requests', [100, 200, 300]),
        series('refusals', 'requests', [1, 0, 11]),
        series('errors', 'requests', [0, 3, 0]),
        series('latency_p50', 'ms', [10, 20, 30]),
        series('handoffs_waiting', 'hand-offs', [0, 1, 2]),
        series('webhooks_delivered', 'webhooks', [5, 6, 1]),
        series('webhooks_failed', 'attempts', [0, 1, 2]),
        series('webhooks_oldest', 's', [0, 60, 300]),
      ],
      budget_exhausted_at: new Date(now + 25 * 60_000).toISOString(),
    };
  };

  test('counts what was refused and what failed apart, and reads its plots out by keys', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin);
    await page.route('**/v1/admin/activity', (route) => route.fulfill({ json: activity() }));
    await page.evaluate(`location.hash = '#/health'`);
    await page.getByText('All systems operational').waitFor();
    await textOf(page.locator('.totals'), /Requests600.*\(4xx\)12 2\.0%.*\(5xx\)3 0\.5%/s);
    const plot = page.getByRole('slider', { name: /^Requests,/ });
    const time = /\d\d:\d\d(:\d\d)?/.source;
    assert.match(
      (await plot.getAttribute('aria-valuetext')) ?? '',
      new RegExp(`^${time}: answered 289, 4xx 11, 5xx 0$`),
    );
    const figure = page.getByRole('figure').filter({ has: plot });
    await textOf(figure, new RegExp(`Requests per (minute|10 s|\\d+ min)${time}answered 2894xx 115xx 0`));
    await plot.press('ArrowLeft');
    await plot.press('ArrowLeft');
    assert.match(
      (await plot.getAttribute('aria-valuetext')) ?? '',
      /^\d\d:\d\d(:\d\d)?: answered 197, 4xx 0, 5xx 3$/,
    );
    await plot.press('Home');
    assert.match((await plot.getAttribute('aria-valuetext')) ?? '', /: answered 99, 4xx 1, 5xx 0$/);
    await textOf(
      page.getByRole('main'),
      /At this rate the budget runs out in 2[45] minutes, at .*\. Then requests wait: the budget frees 209 calls an hour\./,
    );
    await page
      .getByText('12 webhook events delivered, 3 attempts failed. The oldest event has waited for 5 minutes.')
      .waitFor();
    // What waits for a person is on Waiting alone.
    await page.getByRole('slider', { name: /^Waiting for Salesforce,/ }).waitFor();
    await check('health-full');
    await close();
  });

  test('divides what the org counts where the gateway has counted more', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin);
    await page.route('**/v1/healthz', async (route) => {
      const response = await route.fetch();
      const health = (await response.json()) as { crm: { quota: object } };
      health.crm.quota = { used: 40, limit: 1000 };
      await route.fulfill({ response, json: health });
    });
    const row = { operation: null, day: null, requests: 10 };
    const data = [
      { ...row, consumer_id: 'con_1', consumer_name: 'Desk', calls: 300 },
      { ...row, consumer_id: 'service', consumer_name: null, calls: 100 },
    ];
    await page.route('**/v1/admin/crm-usage?*', (route) => route.fulfill({ json: { data, total: 400 } }));
    await page.evaluate(`location.hash = '#/health'`);
    const quota = page.getByRole('figure').filter({ hasText: 'Left' });
    await textOf(
      quota,
      /Desk 75%.*The gateway itself 25%.*Left 960.*made 400 calls.*Salesforce has counted 40 so/s,
    );
    await check('quota of a day that began anew');
    await close();
  });

  test('says which calls are used up, and whether requests wait', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin);
    let quota: object = {};
    await page.route('**/v1/healthz', async (route) => {
      const response = await route.fetch();
      const health = (await response.json()) as { crm: { quota: object } };
      health.crm.quota = quota;
      await route.fulfill({ response, json: health });
    });
    let exhaustedAt: string | null = null;
    await page.route('**/v1/admin/activity', (route) =>
      route.fulfill({ json: { ...activity(), budget_exhausted_at: exhaustedAt } }),
    );
    const budget = { limit: 1000, budget: 240 };
    for (const [given, at, said] of [
      [{ used: 1000, limit: 1000 }, null, /The org's daily calls are used up\. Requests are refused/],
      [{ ...budget, used: 1000, budget_used: 90 }, null, /The org's daily calls are used up\./],
      [{ ...budget, used: 500, budget_used: 240 }, null, /The budget is used up\. Requests wait/],
      [{ ...budget, used: 500, budget_used: 90 }, null, /At this rate the budget lasts the day\./],
      [
        { ...budget, used: 500, budget_used: 90 },
        new Date(),
        /\. Requests wait for calls: .* 10 calls an hour\./,
      ],
    ] as const) {
      quota = given;
      exhaustedAt = at && at.toISOString();
      await page.evaluate(`location.hash = '#/my-access'`);
      await page.getByRole('heading', { level: 1, name: 'My access' }).waitFor();
      await page.evaluate(`location.hash = '#/health'`);
      await textOf(page.getByRole('main'), said);
      if ('budget' in given) continue;
      assert.doesNotMatch(
        (await page.getByRole('main').textContent()) ?? '',
        /(The|At this rate the) budget (is|lasts)/,
      );
    }
    await close();
  });

  const shareOf = async () => {
    const path = `/v1/admin/consumers/${gateway.console.id}`;
    const response = await gateway.request(path, { as: gateway.admin });
    return ((await response.json()) as { crmShare: number | null }).crmShare;
  };

  test('shows the quota by consumer, and sets the share of one by a slider', async () => {
    const { page, check, close } = await openSignedIn(browser, gateway, gateway.admin, '#/health');
    await textOf(page.getByRole('main'), /\d+ of the budget's 5,000 calls used/);
    await page.getByRole('img', { name: /of 5,000 calls used/ }).waitFor();
    const slider = page.getByRole('slider', { name: "console's share" });
    assert.equal(await slider.getAttribute('aria-valuetext'), 'none');
    for (let i = 0; i < 3; i++) await slider.press('ArrowRight');
    assert.equal(await slider.getAttribute('aria-valuetext'), '3%');
    await page.getByText('console now gets 3% of the calls.').waitFor();
    assert.equal(await shareOf(), 3);
    await check('quota');
    // Somebody else is faster.
    const body = { crmShare: 40 };
    const path = `/v1/admin/consumers/${gateway.console.id}`;
    assert.equal((await gateway.request(path, { method: 'PATCH', as: gateway.admin, body })).status, 200);
    await slider.press('ArrowRight');
    await textOf(
      page.getByRole('row').filter({ has: slider }),
      /Someone else set this to 40%\. Set it again\./,
    );
    await eventually(async () => assert.equal(await slider.getAttribute('aria-valuetext'), '40%'));
    assert.equal(await shareOf(), 40);
    await close();
  });

  test('saves the share that a slider was left with, and one move after the other', async () => {
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin, '#/health');
    const slider = page.getByRole('slider', { name: "console's share" });
    const before = (await shareOf()) ?? 0;
    await eventually(async () => assert.equal(await slider.inputValue(), String(before)));
    await page.clock.install();
    const [held, isHeld] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const sent: unknown[] = [];
    await page.route('**/v1/admin/consumers/*', async (route) => {
      if (route.request().method() === 'PATCH') {
        sent.push(route.request().postDataJSON());
        isHeld.resolve();
        await held.promise;
      }
      await route.continue();
    });
    await slider.press('ArrowRight');
    await page.clock.runFor(1000);
    await isHeld.promise;
    await slider.press('ArrowRight');
    await page.clock.runFor(1000);
    held.resolve();
    await page.getByText(`console now gets ${before + 2}% of the calls.`).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.equal(await slider.inputValue(), String(before + 2));
    await slider.press('ArrowRight');
    await page.evaluate(`location.hash = '#/records'`);
    await page.getByText(`console now gets ${before + 3}% of the calls.`).waitFor();
    assert.equal(await shareOf(), before + 3);
    assert.deepEqual(
      sent,
      [1, 2, 3].map((more) => ({ crmShare: before + more })),
    );
    await close();
  });

  test('takes a change that got no answer for its own, and keeps one when the tab is closed', async () => {
    const before = (await shareOf()) ?? 0;
    const { page } = await openSignedIn(browser, gateway, gateway.admin, '#/health');
    const slider = page.getByRole('slider', { name: "console's share" });
    await eventually(async () => assert.equal(await slider.inputValue(), String(before)));
    const path = '**/v1/admin/consumers/*';
    await page.route(path, async (route) => {
      if (route.request().method() !== 'PATCH') return route.continue();
      await route.fetch();
      return route.abort();
    });
    await slider.press('ArrowRight');
    await textOf(page.getByRole('row').filter({ has: slider }), /No response/);
    assert.equal(await shareOf(), before + 1);
    await page.unroute(path);
    await slider.press('ArrowRight');
    await slider.press('ArrowRight');
    await page.getByText(`console now gets ${before + 2}% of the calls.`).waitFor();
    assert.equal(await page.getByText(/Someone else/).count(), 0);

    await stopClock(page);
    const read = page.waitForResponse((response) => /\/v1\/admin\/consumers\/./.test(response.url()));
    await slider.press('ArrowRight');
    await (await read).finished();
    await page.evaluate('0');
    await page.reload();
    await page.clock.resume();
    await eventually(async () => assert.equal(await shareOf(), before + 3));
    // The browser has noted the request that failed.
    await page.context().close();
  });

  test('keeps a move made while another is saved and the tab is left, and takes it for its own afterwards', async () => {
    const before = (await shareOf()) ?? 0;
    const { page, close } = await openSignedIn(browser, gateway, gateway.admin, '#/health');
    const slider = page.getByRole('slider', { name: "console's share" });
    await eventually(async () => assert.equal(await slider.inputValue(), String(before)));
    const [isSaved, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isFirst = true;
    await page.route('**/v1/admin/consumers/*', async (route) => {
      if (route.request().method() !== 'PATCH' || !isFirst) return route.continue();
      isFirst = false;
      const response = await route.fetch();
      isSaved.resolve();
      await answer.promise;
      return route.fulfill({ response });
    });
    await slider.press('ArrowRight');
    await isSaved.promise;
    await slider.press('ArrowRight');
    // As when it goes into the browser's back/forward cache.
    await page.evaluate(`dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))`);
    await eventually(async () => assert.equal(await shareOf(), before + 2));
    answer.resolve();
    await slider.press('ArrowRight');
    await page.getByText(`console now gets ${before + 3}% of the calls.`).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    await close();
  });

  test('has no sliders for those who may not change consumers', async () => {
    const reader = await gateway.newConsumer({ resource: 'consumers', actions: ['read'] });
    const { page, close } = await openSignedIn(browser, gateway, reader, '#/health');
    await page.getByRole('region', { name: 'Salesforce call usage' }).waitFor();
    assert.equal(await page.getByRole('slider', { name: /'s share$/ }).count(), 0);
    await close();
  });
});
