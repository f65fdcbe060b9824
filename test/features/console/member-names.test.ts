import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, useBrowser } from '../../support/browser.ts';
import { FeedReader } from '../../support/feed.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { accept, untilHandoff } from '../../support/handoffs.ts';
import { newReservation } from '../../support/reservations.ts';
import { openSignedIn } from './pages.ts';

describe('names of members in a browser', needsChromium, () => {
  const browser = useBrowser();
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '1', CHANGES_MINIMUM_SECONDS: '0.5' });
  let feed: FeedReader;
  let agent: Credentials;
  before(async () => {
    feed = new FeedReader(gateway.request);
    agent = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'], approval: true });
  });

  /** A member that the gateway has never read. */
  const newMember = async (LastName: string) => {
    const id = randomUUID();
    await gateway.org.insert('Contact', [{ External_Id__c: id, FirstName: 'Noor', LastName }]);
    return id;
  };
  const result = (name: string) => ({ name, source: 'x', details: { hotel: name } });
  const handOff = async (member_id: string, name: string) => {
    const id = await accept(gateway, { member_id, result: result(name) });
    await untilHandoff(gateway, id);
    for (const type of ['quote.created', 'handoff.created'])
      await feed.until((event) => event.type === type && event.resource.id === id);
    return id;
  };
  const requestsOf = (page: Page) => {
    const sent: string[] = [];
    page.on('request', (request) => sent.push(request.url()));
    return {
      members: () => sent.filter((url) => url.includes('/v1/members/')),
      records: () => sent.filter((url) => /\/v1\/(quotes|bookings|handoffs)\//.test(url)),
      events: () => sent.filter((url) => url.includes('/v1/events?')),
    };
  };

  test('come with a page of events, in its one request', async () => {
    const id = await handOff(await newMember('Once'), 'Casa Once');
    const { page, close } = await openSignedIn(browser, gateway, gateway.console);
    const { members, records, events } = requestsOf(page);
    const rejected = await accept(gateway, { member_id: await newMember('Never') }, { as: agent });
    const refusal = { body: { reason: 'No.' }, as: gateway.admin };
    const answer = await gateway.request(`/v1/handoffs/${rejected}/reject`, refusal);
    assert.equal(answer.status, 200, await answer.text());
    for (const [type, ofId, name] of [
      ['quote.created', id, 'Casa Once'],
      ['handoff.created', id, 'Casa Once'],
      ['handoff.rejected', rejected, rejected],
    ] as const) {
      await page.evaluate(`location.hash = '#/events?type=${type}&resource_id=${ofId}'`);
      const row = page.getByRole('row').filter({ hasText: type });
      await row.getByRole('link', { name: ofId === id ? 'Noor Once' : 'Noor Never' }).waitFor();
      await row.getByRole('link', { name }).waitFor();
    }
    assert.deepEqual([...members(), ...records()], []);
    assert.ok(events().length > 0 && events().every((url) => url.includes('include=member')));
    await close();
  });

  test('are not asked for by those who may not see whom a record is for', async () => {
    const blind = await gateway.newConsumer(
      { resource: 'members', actions: ['read'] } as never,
      { resource: 'quotes', actions: ['read'], fields: ['name'] } as never,
    );
    const id = await handOff(await newMember('Unseen'), 'Casa Unseen');
    const { page, close } = await openSignedIn(browser, gateway, blind, `#/events?resource_id=${id}`);
    await page.getByRole('link', { name: 'Casa Unseen' }).first().waitFor();
    for (const [address, name] of [
      ['#/records/quotes', 'Casa Unseen'],
      [`#/records/quotes/${id}`, 'Casa Unseen'],
    ] as const) {
      await page.evaluate(`location.hash = '${address}'`);
      await page.getByText(name).first().waitFor();
      assert.equal(await page.getByRole('alert').count(), 0, address);
    }
    await close();
  });

  test('of events, and of hand-offs that are done, appear once an outage is over', async (context) => {
    const memberId = await newMember('Later');
    const id = await handOff(memberId, 'Casa Later');
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    context.after(() => gateway.org.disarm());
    const address = `#/events?type=quote.created&resource_id=${id}`;
    const ofRecord = await openSignedIn(browser, gateway, gateway.console, address);
    await ofRecord.page.getByRole('row').getByRole('link', { name: memberId }).waitFor();
    const ofHandoff = await openSignedIn(
      browser,
      gateway,
      gateway.console,
      `#/events?type=handoff.created&resource_id=${id}`,
    );
    const row = ofHandoff.page.getByRole('row').filter({ hasText: 'handoff.created' });
    await row.getByRole('link', { name: 'Casa Later' }).waitFor();
    await row.getByRole('link', { name: memberId }).waitFor();
    const done = await openSignedIn(browser, gateway, gateway.console, `#/handoffs/${id}`);
    await done.page.getByRole('heading', { level: 1, name: 'Quote' }).waitFor();
    await gateway.org.disarm();
    await ofRecord.page.getByRole('row').getByRole('link', { name: 'Noor Later' }).waitFor();
    await row.getByRole('link', { name: 'Noor Later' }).waitFor();
    await done.page.getByRole('heading', { level: 1, name: 'Casa Later' }).waitFor();
    for (const { close } of [ofRecord, ofHandoff, done]) await close();
  });

  test('of hand-offs that wait appear on Waiting once an outage is over', async (context) => {
    const memberId = await newMember('Waiting');
    await accept(gateway, { member_id: memberId, result: result('Casa Waiting') }, { as: agent });
    await gateway.org.arm({ match: {}, effect: { kind: 'down' } });
    context.after(() => gateway.org.disarm());
    const { page, close } = await openSignedIn(browser, gateway, gateway.console, '#/waiting');
    const row = page.getByRole('row').filter({ hasText: 'Casa Waiting' });
    await row.getByRole('link', { name: memberId }).waitFor();
    await gateway.org.disarm();
    await row.getByRole('link', { name: 'Noor Waiting' }).waitFor();
    await close();
  });

  test('of hand-offs that wait stand on their page and their trip, which nobody had read', async () => {
    const ask = async (name: string) => {
      const offer = { trip_id: randomUUID(), member_id: await newMember(name), result: result(name) };
      return { ...offer, id: await accept(gateway, offer, { as: agent }) };
    };
    const [one, other] = [await ask('Single'), await ask('Tripper')];
    const { page, close } = await openSignedIn(browser, gateway, gateway.console, `#/handoffs/${one.id}`);
    await page.getByRole('link', { name: 'Noor Single' }).waitFor();
    await page.evaluate(`location.hash = '#/trips/${other.trip_id}'`);
    await page.getByRole('heading', { level: 1, name: "Noor Tripper's trip" }).waitFor();
    await page.getByRole('link', { name: 'Noor Tripper' }).waitFor();
    await close();
  });

  test('come with a reservation', async () => {
    const made = await gateway.request('/v1/reservations', {
      body: newReservation(await newMember('Guest')),
      headers: { 'idempotency-key': randomUUID() },
    });
    assert.equal(made.status, 201, await made.clone().text());
    const { id } = (await made.json()) as { id: string };
    const { page, close } = await openSignedIn(browser, gateway, gateway.console);
    const { members } = requestsOf(page);
    await page.evaluate(`location.hash = '#/reservations/${id}'`);
    await page.getByRole('link', { name: 'Noor Guest' }).waitFor();
    assert.deepEqual(members(), []);
    await close();
  });
});
