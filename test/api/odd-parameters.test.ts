import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TSchema } from 'typebox';
import { exampleOf } from '../../src/api/openapi/schemas.ts';
import { type Route } from '../../src/api/route.ts';
import { uncalledRoutes } from '../../src/app/routes.ts';
import { features } from '../../src/features.ts';
import { type Credentials, startGateway, type TestGateway } from '../support/gateway.ts';
import { accept } from '../support/handoffs.ts';
import { partOf } from '../support/nightly.ts';
import { isTime, type Odd, oddOnes, oddTexts, rightTimes, wrongTimes } from '../support/odd-values.ts';
import { startPostgres } from '../support/postgres.ts';
import { recordFor } from '../support/records.ts';

/** The embedded database does the same, in three times the time. */
const postgres = await startPostgres();
const routes = uncalledRoutes(new Map(features.map(({ name }) => [name, { pages: {} }])));
/** As many share a call to the CRM, which is most of what a write costs. */
const atOnce = 12;

/** Headers that refuse what they do not take; the others pass together. */
const checkedHeaders = ['x-actor', 'idempotency-key', 'if-match'];
const otherHeaders = [
  ...[
    'x-request-id',
    'user-agent',
    'prefer',
    'cache-control',
    'traceparent',
    'tracestate',
    'accept',
    'if-none-match',
  ],
  ...['x-forwarded-for', 'webhook-id', 'webhook-timestamp', 'webhook-signature'],
];

interface Answer {
  status: number;
  problem: { code?: string; errors?: { pointer?: string; parameter?: string }[] };
}

describe('what callers with credentials send', { timeout: 1_200_000 }, () => {
  let gateway: TestGateway;
  let caller: Credentials;
  /** Of things that exist, by the path of their list. */
  const ids = new Map<string, string>();
  /** Ids of requests that were refused because the database was late, which it may be on a busy machine. */
  const late = new Set<unknown>();

  before(async () => {
    gateway = await startGateway({
      ...{ CHANGES_POLL_SECONDS: '5', RATE_LIMIT_PER_MINUTE: '0', COPY_ENABLED: 'true' },
      ...{ RATE_LIMIT_FAILED_PER_MINUTE: '0', RATE_LIMIT_PUBLIC_PER_MINUTE: '0' },
      ...(postgres && { DATABASE_URL: postgres.url }),
    });
    caller = gateway.admin;
    await makeOneOfEach();
  });
  after(async () => {
    await gateway.stop();
    await postgres?.stop();
  });

  async function makeOneOfEach(): Promise<void> {
    const record = recordFor(gateway.org.memberId);
    const endpoint = { url: `http://127.0.0.1:19999/${randomUUID()}` };
    for (const [path, body] of [
      ['/v1/quotes', record],
      ['/v1/bookings', record],
      ['/v1/webhook-endpoints', endpoint],
      ['/v1/admin/consumers', { name: 'other', permissions: [{ resource: 'quotes', actions: ['read'] }] }],
    ] as const) {
      const made = await gateway.request(path, {
        as: caller,
        body,
        headers: { 'idempotency-key': randomUUID() },
      });
      assert.equal(made.status, 201, path);
      ids.set(path, ((await made.json()) as { id: string }).id);
    }
    ids.set('/v1/handoffs', await accept(gateway));
    ids.set('/v1/members', gateway.org.memberId);
  }

  interface Parts {
    params: Record<string, unknown>;
    query?: Record<string, unknown>;
    body?: unknown;
    headers?: Record<string, string>;
  }

  async function send(
    { method, path, idempotencyKey }: Route,
    { params, query = {}, body, headers: odd }: Parts,
  ) {
    const uri = path
      .replaceAll(/:(\w+)/g, (_, name: string) => encode(params[name]))
      .replace('*', () => encode(params['*']));
    const search = Object.entries(query).flatMap(([name, value]) =>
      [value].flat().map((one) => `${encodeURIComponent(name)}=${encode(one)}`),
    );
    const ask = () =>
      gateway.request(search.length === 0 ? uri : `${uri}?${search.join('&')}`, {
        method,
        as: caller,
        ...(body !== undefined && { body: JSON.stringify(body) }),
        headers: { ...(idempotencyKey === 'required' && { 'idempotency-key': randomUUID() }), ...odd },
      });
    let response = await ask();
    // What was sent is not the cause where a repeat is answered.
    for (let repeats = 0; response.status === 503 && repeats < 5; repeats++) {
      late.add(response.headers.get('x-request-id'));
      await response.body?.cancel();
      await sleep(1000);
      response = await ask();
    }
    const text = await response.text();
    const what = `${method} ${uri} ${search.join('&')} ${JSON.stringify(body)} ${JSON.stringify(odd)}`;
    // A simulator on a machine that is busy may be late, whatever was sent.
    assert.ok(response.status < 500 || response.status === 504, `${what}: ${response.status} ${text}`);
    return { status: response.status, problem: response.status >= 400 ? JSON.parse(text) : {} };
  }

  /** The example of each part of a request to a route, with ids that exist. */
  function exampleParts({ path, request: { params, query, body } }: Route): Required<Omit<Parts, 'headers'>> {
    const list = [...ids.keys()].find((one) => path.startsWith(`${one}/:`));
    const named = params === undefined ? {} : (exampleOf(params) as Record<string, unknown>);
    const [first] = Object.keys(named);
    const asked = query === undefined ? {} : (exampleOf(query) as Record<string, unknown>);
    // One that is right for this list alone.
    delete asked['cursor'];
    return {
      params: { ...named, ...(list !== undefined && first !== undefined && { [first]: ids.get(list) }) },
      query: asked,
      body: body && exampleOf(body),
    };
  }

  async function each<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
    const iterator = items[Symbol.iterator]();
    const worker = async () => {
      for (let next = iterator.next(); !next.done; next = iterator.next()) await work(next.value);
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  function checkTime({ pointer, schema, put }: Odd, { status, problem }: Answer, where: string): void {
    if (!isTime(schema) || typeof put !== 'string') return;
    const names = (problem.errors ?? []).map(({ pointer, parameter }) => pointer ?? `/${parameter}`);
    // A check tells of it in its answer.
    if (wrongTimes.includes(put) && !where.includes('/check')) {
      assert.equal(status, 400, `${where} ${pointer} ${put}`);
      assert.ok(
        names.some((name) => name.endsWith(pointer)),
        `${where} ${pointer} ${put}: ${names.join()}`,
      );
    }
    // Some take times in UTC only. An offer that has ended long ago is refused for that.
    const isRefused = schema.pattern !== undefined || problem.code === 'offer_expired';
    if (rightTimes.includes(put) && !isRefused)
      assert.ok(!names.some((name) => name.endsWith(pointer)), `${where} ${pointer} ${put}`);
  }

  for (const route of ordered(routes)) {
    test(`${route.method} ${route.path} makes no error of the service`, async () => {
      const example = exampleParts(route);
      const where = `${route.method} ${route.path}`;
      for (const part of ['params', 'query', 'body'] as const) {
        const schema = route.request[part];
        if (schema === undefined) continue;
        await each(partOf(oddOnes(schema), 6), async (odd) => {
          // A query that is no object cannot be sent.
          if (part !== 'body' && odd.pointer === '') return;
          const answer = await send(route, { ...example, [part]: fill(part, odd, route, example.params) });
          // Without a signature nothing of a webhook is looked at.
          if (route.signature === undefined) checkTime(odd, answer, where);
        });
      }
      await each(partOf(oddHeaders(route), 6), async (odd) => {
        await send(route, { ...example, headers: odd });
      });
    });
  }

  test('nothing of it is an error in the log', () => {
    const errors = gateway.logLines.filter(
      ({ level, facts }) =>
        level === 'error' && !String(facts['code']).endsWith('_timeout') && !late.has(facts['request_id']),
    );
    assert.deepEqual(errors.slice(0, 3), []);
  });
});

/** The odd value among the examples of the others that are needed. */
function fill(
  part: 'params' | 'query' | 'body',
  { pointer: at, put, value }: Odd,
  route: Route,
  params: object,
): unknown {
  if (part === 'body') return value;
  const name = at.slice(1).replace(/\/0$/, '');
  const one = typeof put === 'object' && put !== null ? JSON.stringify(put) : put;
  if (part === 'params') return { ...params, [name]: one };
  const { required = [] } = route.request.query as { required?: string[] };
  const examples = exampleOf(route.request.query as TSchema) as Record<string, unknown>;
  return { ...Object.fromEntries(required.map((needed) => [needed, examples[needed]])), [name]: one };
}

/** Deletions last: what they delete the others need. */
function ordered(all: readonly Route[]): Route[] {
  const rank = ({ method, path }: Route) => (method === 'DELETE' ? 2 : /rotate/.test(path) ? 1 : 0);
  return [...all].sort((a, b) => rank(a) - rank(b));
}

/** A header cannot hold every text: as UTF-8 and as Latin-1, without what ends a header. */
function* oddHeaders({ idempotencyKey }: Route): Generator<Record<string, string>> {
  for (const text of oddTexts) {
    for (const value of new Set([Buffer.from(text).toString('latin1'), text])) {
      if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) continue;
      yield Object.fromEntries(otherHeaders.map((name) => [name, value]));
      // The same steps read them on every write: those that need a key stand for all.
      if (idempotencyKey === 'required') yield* checkedHeaders.map((name) => ({ [name]: value }));
    }
    yield { 'x-actor': encodeURIComponent(text.toWellFormed()) };
  }
}

/** A lone surrogate goes as the three bytes that UTF-8 would have for it. */
function encode(value: unknown): string {
  return String(value).replaceAll(/[\s\S]/gu, (character) =>
    /\p{Cs}/u.test(character) ? surrogateBytes(character.charCodeAt(0)) : encodeURIComponent(character),
  );
}

function surrogateBytes(unit: number): string {
  const bytes = [0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)];
  return bytes.map((byte) => `%${byte.toString(16)}`).join('');
}
