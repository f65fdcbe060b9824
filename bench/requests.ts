import { randomUUID } from 'node:crypto';
import type { Crm, Gateway } from './harness.ts';
import { httpRequest } from './load.ts';

/** The requests that are compared: the same reads and the same writes, through the gateway and directly. */
const dataPath = '/services/data/v68.0';
const json = { 'content-type': 'application/json' };
const details = { rate_key: '20270412|W|1|1073|DBT.SU', net: '612.40', currency: 'EUR', nights: 3 };

/** A quote as the simulated org stores it. */
export function quoteRow(memberId: string, externalId: string = randomUUID()): object {
  return {
    External_Id__c: externalId,
    Trip_Id__c: randomUUID(),
    Member__r: { External_Id__c: memberId },
    Name__c: 'Hotel Miramar, double room with sea view, 3 nights',
    Source__c: 'bench',
    Details__c: JSON.stringify(details),
  };
}

/** Reads quotes in turn, which no cache may answer. */
export function gatewayRead({ headers }: Gateway, quoteIds: string[]): (n: number) => string {
  const requests = quoteIds.map((id) => httpRequest('GET', `/v1/quotes/${id}`, headers));
  return (n) => requests[n % requests.length] ?? '';
}

export function gatewayWrite({ headers }: Gateway, memberId: string, path = '/v1/quotes'): () => string {
  return () => {
    const record = { name: 'Hotel Miramar, double room with sea view, 3 nights', source: 'bench', details };
    const body = { trip_id: randomUUID(), member_id: memberId, ...record };
    const all = { ...headers, ...json, 'idempotency-key': randomUUID() };
    return httpRequest('POST', path, all, JSON.stringify(body));
  };
}

/** Members in turn: the gateway has no two calls with records of one member in flight, since the CRM locks it. */
export function gatewayWrites(gateway: Gateway, memberIds: readonly string[]): (n: number) => string {
  const writes = memberIds.map((id) => gatewayWrite(gateway, id));
  return (n) => writes[n % writes.length]?.() ?? '';
}

/** One query for one quote, as a program without the gateway would send it. */
export async function directRead(crm: Crm, quoteIds: string[]): Promise<(n: number) => string> {
  const headers = await crm.directHeaders();
  const fields = 'Id, External_Id__c, Trip_Id__c, Member__r.External_Id__c, Name__c, Source__c, Details__c';
  const requests = quoteIds.map((id) => {
    const query = `SELECT ${fields}, Status__c, CreatedDate, LastModifiedDate FROM Quote__c WHERE External_Id__c = '${id}'`;
    return httpRequest('GET', `${dataPath}/query?q=${encodeURIComponent(query)}`, headers);
  });
  return (n) => requests[n % requests.length] ?? '';
}

export async function directWrite(crm: Crm, memberId: string): Promise<() => string> {
  const headers = { ...(await crm.directHeaders()), ...json };
  return () =>
    httpRequest('POST', `${dataPath}/sobjects/Quote__c`, headers, JSON.stringify(quoteRow(memberId)));
}
