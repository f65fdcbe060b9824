/**
 * A CRM that answers at once with canned records, so that it is not what a measurement measures:
 *
 *     node bench/fast-upstream.ts
 *
 * It speaks as much of the CRM's API as reads by External ID and creations need, alone or gathered; whatever id is
 * asked for exists. `POST /plain` sets what `GET /plain` answers, for proxies: the same bytes as the gateway's answer.
 * `GET /calls` returns how many calls of the CRM's API it has answered. No part of the tests: the simulated org is.
 */
import { createServer, type Socket } from 'node:net';
import { listOf, resourcesOf } from '../src/records/mapping.ts';
import { describedFor } from '../test/support/described.ts';

const resources = listOf(resourcesOf());

interface Answer {
  status: number;
  body: string;
}

const reasons: Record<number, string> = { 200: 'OK', 201: 'Created', 204: 'No Content', 404: 'Not Found' };
const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const moment = '2027-03-02T16:05:12.000+0000';
const record = {
  Id: 'a0B000000000001AAA',
  Trip_Id__c: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
  Member__r: { External_Id__c: '3b241101-e2bb-4255-8caf-4136c566a962' },
  Name__c: 'Hotel Miramar, double room with sea view, 3 nights',
  Source__c: 'hotelbeds',
  Details__c: JSON.stringify({ rate_key: '20270412|W|1|1073|DBT.SU', net: '612.40', currency: 'EUR' }),
  Status__c: 'created',
  FirstName: 'Maria',
  LastName: 'Marin',
  Email: 'maria.marin@example.com',
  Phone: '+34 952 555 010',
  CreatedDate: moment,
  LastModifiedDate: moment,
};
/** A row is this text with an External ID in the gap. */
const [rowStart = '', rowEnd = ''] = JSON.stringify({ ...record, External_Id__c: '\n' }).split('\\n');

let plain = '{}';
let calls = 0;
let madeIds = 0;

const server = createServer({ noDelay: true }, serve);
server.listen(0, '127.0.0.1', () => console.log(`listening on ${url()}`));

function url(): string {
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

function serve(socket: Socket): void {
  let received = Buffer.alloc(0);
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => {
    received = received.length === 0 ? Buffer.from(bytes) : Buffer.concat([received, bytes]);
    for (;;) {
      const end = received.indexOf('\r\n\r\n');
      if (end === -1) return;
      const head = received.toString('latin1', 0, end);
      const bodyEnd = end + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      if (bodyEnd > received.length) return;
      const [method = '', path = ''] = head.slice(0, head.indexOf('\r\n')).split(' ');
      if (path.startsWith('/services/')) calls++;
      write(socket, answerTo(method, path, received.toString('utf8', end + 4, bodyEnd)));
      received = received.subarray(bodyEnd);
    }
  });
}

function write(socket: Socket, { status, body }: Answer): void {
  const head = `HTTP/1.1 ${status} ${reasons[status]}\r\nContent-Type: application/json;charset=UTF-8\r\n`;
  const length = status === 204 ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  socket.write(`${head}Sforce-Limit-Info: api-usage=1/1000000\r\n${length}\r\n${body}`);
}

function answerTo(method: string, path: string, body: string): Answer {
  if (path.startsWith('/plain')) {
    if (method === 'POST') plain = body;
    return { status: 200, body: plain };
  }
  if (path === '/calls') return { status: 200, body: String(calls) };
  return method === 'GET' ? read(path) : change(method, path, body);
}

function read(path: string): Answer {
  if (path.includes('/query')) return { status: 200, body: rowsFor(path) };
  const object = /\/sobjects\/(\w+)\/describe$/.exec(path)?.[1];
  const described = resources.find(({ crmObject }) => crmObject === object);
  if (described) return { status: 200, body: JSON.stringify(describedFor(described)) };
  if (path.endsWith('/userinfo'))
    return { status: 200, body: '{"user_id":"005000000000001AAA","name":"Bench"}' };
  return {
    status: 404,
    body: '[{"errorCode":"NOT_FOUND","message":"the fast upstream has no such resource"}]',
  };
}

/** One row for each External ID in the query, in either case; percent-encoding leaves them as they are. */
function rowsFor(path: string): string {
  const ids = new Set(path.match(uuid)?.map((id) => id.toLowerCase()));
  const rows = Array.from(ids, (id) => rowStart + id + rowEnd);
  return `{"totalSize":${ids.size},"done":true,"records":[${rows.join(',')}]}`;
}

function change(method: string, path: string, body: string): Answer {
  if (path.endsWith('/oauth2/token')) {
    const token = { access_token: '00D!bench', instance_url: url(), token_type: 'Bearer' };
    return { status: 200, body: JSON.stringify(token) };
  }
  if (path.endsWith('/composite')) return composite(JSON.parse(body) as { compositeRequest: Part[] });
  if (path.endsWith('/composite/batch')) return batch(JSON.parse(body) as { batchRequests: Part[] });
  if (path.includes('/composite/sobjects')) return collection(path, body);
  return method === 'POST' ? { status: 201, body: JSON.stringify(saved()) } : { status: 204, body: '' };
}

function saved(): { id: string; success: true; errors: [] } {
  return { id: `a0B${String(++madeIds).padStart(12, '0')}AAA`, success: true, errors: [] };
}

/** One result for each record of the body, or for each id in the path of a deletion. */
function collection(path: string, body: string): Answer {
  const count = body
    ? (JSON.parse(body) as { records: unknown[] }).records.length
    : (new URL(path, url()).searchParams.get('ids') ?? '').split(',').length;
  return { status: 200, body: JSON.stringify(Array.from({ length: count }, saved)) };
}

interface Part {
  method: string;
  url: string;
  referenceId?: string;
  body?: unknown;
  richInput?: unknown;
}

const answerPart = ({ method, url: path, body, richInput }: Part): Answer =>
  answerTo(method, path, JSON.stringify(body ?? richInput) ?? '');

function composite({ compositeRequest }: { compositeRequest: Part[] }): Answer {
  const parts = compositeRequest.map((part) => {
    const { status, body } = answerPart(part);
    return `{"body":${body || 'null'},"httpHeaders":{},"httpStatusCode":${status},"referenceId":${JSON.stringify(part.referenceId)}}`;
  });
  return { status: 200, body: `{"compositeResponse":[${parts.join(',')}]}` };
}

function batch({ batchRequests }: { batchRequests: Part[] }): Answer {
  const parts = batchRequests.map((part) => {
    const { status, body } = answerPart({ ...part, url: `/services/data/${part.url}` });
    return `{"statusCode":${status},"result":${body || 'null'}}`;
  });
  return { status: 200, body: `{"hasErrors":false,"results":[${parts.join(',')}]}` };
}
