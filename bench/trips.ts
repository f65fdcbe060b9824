import { randomUUID } from 'node:crypto';
import { measureCalls, type WithCalls } from './calls.ts';
import type { Gateway } from './harness.ts';
import { httpRequest } from './load.ts';
import { fillOrg, insertRecords, setPace } from './org-control.ts';
import type { Part } from './part.ts';
import { quoteRow } from './requests.ts';
import { interleave, loadCells } from './rounds.ts';
import { type Spread, spreadOf } from './spread.ts';

const items = 25;
const rowsOfPage = 50;
const latencyMs = 150;
const callsAtOnce = 20;
const json = { 'content-type': 'application/json' };

/** A trip in one request over the same items in requests of their own; and the members of a page beside its quotes. */
export const trips: Part = async ({ harness, rounds, seconds }) => {
  const org = await harness.startOrg();
  const { memberId } = await fillOrg(org, 0);
  const members = Array.from({ length: rowsOfPage }, () => randomUUID());
  const contact = (id: string) => ({ LastName: 'Bench', Email: 'bench@example.com', External_Id__c: id });
  await insertRecords(org, 'Contact', members.map(contact));
  await insertRecords(
    org,
    'Quote__c',
    members.map((id) => quoteRow(id)),
  );
  const gateway = await harness.startGateway({ crm: org, env: await harness.newDatabase() });
  await setPace(org, { latencyMs, maxConcurrent: callsAtOnce });
  const run = (clients: number, next: () => string) => () =>
    measureCalls({ urls: [gateway.url], clients, seconds, next }, { gateway, org });
  const list = (query: string) => () =>
    httpRequest('GET', `/v1/quotes?limit=${rowsOfPage}${query}`, gateway.headers);
  const results = await interleave(rounds, {
    [`${items} items in one request`]: run(1, tripRequest(gateway, memberId)),
    [`${items} requests at once`]: run(items, itemRequest(gateway, memberId)),
    [`${items} requests, one after the other`]: run(1, itemRequest(gateway, memberId)),
    [`${rowsOfPage} quotes`]: run(1, list('')),
    [`${rowsOfPage} quotes with include=member`]: run(1, list('&include=member')),
  });
  const entries = Object.entries<WithCalls[]>(results);
  const rows = entries
    .slice(0, 3)
    .map(([name, measured], index) => tripRow(name, measured, index === 0 ? 1 : items));
  const lists = entries.slice(3).map(([requests, measured]) => ({
    requests,
    'CRM calls each': spreadOf(measured.map(({ callsEach }) => callsEach)),
    ...loadCells(measured),
  }));
  const pace = `The CRM takes ${latencyMs} ms a call and ${callsAtOnce} calls at once. Each hand-off has a key of its own.`;
  const tables = [
    { title: `A trip of ${items} items`, notes: [pace, 'All figures are for one trip.'], rows },
    {
      title: 'Members beside quotes',
      notes: [`Each quote has another member; one request at a time.`],
      rows: lists,
    },
  ];
  return { tables, figures: {} };
};

/** `requests`: for one trip. */
function tripRow(name: string, measured: WithCalls[], requests: number): Record<string, string | Spread> {
  const spread = (pick: (one: WithCalls) => number) => spreadOf(measured.map(pick));
  // Clients at once share the time; one client adds it up.
  const ms = (one: WithCalls) => (1000 / one.rate) * requests;
  return {
    'a trip by': name,
    'CRM calls': spread((one) => one.callsEach * requests),
    ms: spread(ms),
    'gateway CPU ms': spread((one) => ((one.cpu['gateway'] ?? Number.NaN) * requests) / 1000),
    'CRM CPU ms': spread((one) => ((one.cpu['CRM'] ?? Number.NaN) * requests) / 1000),
    'other answers': loadCells(measured)['other answers'] as string,
  };
}

function offer(reference: number) {
  const details = { rate_key: `${reference}|20270412|W|1|1073|DBT.SU`, net: 612.4, currency: 'EUR' };
  return { type: 'quote', result: { name: 'Hotel Miramar, 3 nights', source: 'bench', details } };
}

function tripRequest({ headers }: Gateway, member_id: string): () => string {
  return () => {
    const body = {
      trip_id: randomUUID(),
      member_id,
      items: Array.from({ length: items }, (_, n) => offer(n)),
    };
    const keyed = { ...headers, ...json, 'idempotency-key': randomUUID() };
    return httpRequest('POST', '/api/v1/handoffs', keyed, JSON.stringify(body));
  };
}

function itemRequest({ headers }: Gateway, member_id: string): () => string {
  let trip_id = '';
  let sent = 0;
  return () => {
    if (sent++ % items === 0) trip_id = randomUUID();
    const keyed = { ...headers, ...json, 'idempotency-key': randomUUID() };
    return httpRequest(
      'POST',
      '/api/v1/handoff',
      keyed,
      JSON.stringify({ trip_id, member_id, ...offer(sent) }),
    );
  };
}
