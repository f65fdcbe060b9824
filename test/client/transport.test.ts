import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyCredentials } from '../../client/src/credentials.ts';
import { HandoffClient, HandoffConnectionError, HandoffProblem } from '../../client/src/index.ts';
import type { CommonOptions } from '../../client/src/transport.ts';
import { makeKeys } from '../support/assertions.ts';

interface Sent {
  url: string;
  method: string | undefined;
  headers: Headers;
  body: unknown;
}

type Answer = Response | Error | 'never';

const credentials = { baseUrl: 'https://handoff.example.com/base/', apiKey: 'key', apiSecret: 'secret' };
const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
const problem = (status: number, code: string, headers: Record<string, string> = { 'retry-after': '0' }) =>
  json(
    status,
    { code, title: 'A title', detail: 'A detail.', status },
    {
      'content-type': 'application/problem+json',
      ...headers,
    },
  );

/** A client that gets these answers, one after the other, and what it sent. */
function clientOf(answers: Answer[], options: Partial<CommonOptions> = {}) {
  const sent: Sent[] = [];
  const client = new HandoffClient({
    ...credentials,
    ...options,
    fetch: async (url, init) => {
      sent.push({
        url: url as string,
        method: init?.method,
        headers: new Headers(init?.headers),
        body: init?.body,
      });
      const answer = answers.shift();
      if (answer === 'never') {
        return new Promise((_, reject) => {
          const { signal } = init ?? {};
          signal?.addEventListener('abort', () => reject(signal.reason as Error));
        });
      }
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('no answer is left');
      return answer;
    },
  });
  return { client, sent };
}

const offer = {
  type: 'quote' as const,
  trip_id: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
  member_id: '3b241101-e2bb-4255-8caf-4136c566a962',
  result: { name: 'Hotel', source: 'hotelbeds', details: {} },
};

describe('retries', () => {
  const retried: [string, Answer][] = [
    ['a connection that fails', new TypeError('fetch failed')],
    ['409 in progress', problem(409, 'idempotency_in_progress')],
    ['429', problem(429, 'rate_limited')],
    ['502', problem(502, 'crm_error')],
    ['503', problem(503, 'crm_unavailable')],
    ['504 of something in between', new Response('<html>', { status: 504, headers: { 'retry-after': '0' } })],
  ];
  for (const [name, answer] of retried) {
    test(`follow ${name}, with the same request`, async () => {
      const { client, sent } = clientOf([answer, json(201, { status: 'created' })]);
      await client.handOff(offer);
      const [first, second] = sent;
      assert.deepEqual(first, second);
      assert.match(String(first?.headers.get('idempotency-key')), /^[0-9a-f-]{36}$/);
    });
  }

  for (const answer of [
    problem(409, 'conflict'),
    problem(422, 'crm_rejected'),
    problem(500, 'internal_error'),
  ]) {
    test(`do not follow ${answer.status}`, async () => {
      const { client, sent } = clientOf([answer]);
      await assert.rejects(client.handOff(offer), HandoffProblem);
      assert.equal(sent.length, 1);
    });
  }

  test('end with the last problem after maxRetries', async () => {
    const { client, sent } = clientOf([problem(503, 'crm_unavailable'), problem(504, 'crm_timeout')], {
      maxRetries: 1,
    });
    await assert.rejects(client.quotes.retrieve('x'), {
      code: 'crm_timeout',
      retryAfter: 0,
      detail: 'A detail.',
    });
    assert.equal(sent.length, 2);
  });

  test('are not begun where the service asks for a long wait', async () => {
    const { client, sent } = clientOf([problem(503, 'crm_quota_exhausted', { 'retry-after': '3600' })]);
    await assert.rejects(client.quotes.retrieve('x'), { retryAfter: 3600 });
    assert.equal(sent.length, 1);
  });

  test('follow a try that takes too long, and report that no answer came', async () => {
    const { client, sent } = clientOf(['never', 'never'], { timeoutMs: 20, maxRetries: 1 });
    await assert.rejects(client.quotes.delete('x'), (error: HandoffConnectionError) => {
      assert.ok(error instanceof HandoffConnectionError);
      assert.equal(error.idempotencyKey, sent[0]?.headers.get('idempotency-key'));
      return true;
    });
    assert.equal(sent.length, 2);
  });

  test('end at once when the caller ends the call', async () => {
    const { client } = clientOf([problem(503, 'crm_unavailable', { 'retry-after': '30' }), 'never']);
    const controller = new AbortController();
    const call = client.members.retrieve('x', { signal: controller.signal });
    setImmediate(() => controller.abort(new Error('enough')));
    await assert.rejects(call, /enough/);
  });
});

describe('requests', () => {
  test('say how old an answer may be where that is given, on each page', async () => {
    const page = (next_cursor: string | null) =>
      json(200, { data: [], next_cursor, has_more: next_cursor !== null });
    const { client, sent } = clientOf([
      ...[json(200, {}), json(200, {}), json(200, {}), json(200, {})],
      ...[page('next'), page(null)],
    ]);
    await client.members.retrieve('x');
    await client.members.retrieve('x', { staleIfErrorSeconds: 600 });
    await client.members.retrieve('x', { maxAgeSeconds: 5, staleIfErrorSeconds: 600 });
    await client.quotes.retrieve('x', { maxAgeSeconds: 0 });
    for await (const _ of client.bookings.list({}, { maxAgeSeconds: 60 })) assert.fail('the pages are empty');
    assert.deepEqual(
      sent.map(({ headers }) => headers.get('cache-control')),
      [
        ...[null, 'stale-if-error=600', 'max-age=5, stale-if-error=600'],
        ...['max-age=0', 'max-age=60', 'max-age=60'],
      ],
    );
  });

  test('have address, credentials, key, actor and preference', async () => {
    const { client, sent } = clientOf([json(202, { status: 'accepted' })], { actor: 'ana@example.com' });
    await client.handOff(offer, {
      respondAsync: true,
      waitSeconds: 2,
      idempotencyKey: 'k',
      actor: 'Inés 100%',
    });
    const { url, method, headers, body } = sent[0] as Sent;
    assert.equal(`${method} ${url}`, 'POST https://handoff.example.com/base/api/v1/handoff');
    assert.equal(body, JSON.stringify(offer));
    const { 'user-agent': agent, ...others } = Object.fromEntries(headers);
    assert.match(String(agent), /^handoff-client\/\d/);
    assert.deepEqual(others, {
      accept: 'application/json, application/problem+json',
      'content-type': 'application/json',
      'idempotency-key': 'k',
      prefer: 'respond-async, wait=2',
      'x-actor': 'In%C3%A9s 100%25',
      'x-api-key': 'key',
      'x-api-secret': 'secret',
    });
  });

  const each: [string, string, (client: HandoffClient) => Promise<unknown>][] = [
    ['GET', '/v1/handoffs/a%2Fb', (client) => client.handoffs.retrieve('a/b')],
    [
      'GET',
      '/v1/handoffs?status=failed&limit=5',
      (client) => client.handoffs.list({ status: 'failed', limit: 5 }).page(),
    ],
    ['POST', '/v1/handoffs/x/retry', (client) => client.handoffs.retry('x')],
    ['DELETE', '/v1/handoffs/x', (client) => client.handoffs.cancel('x')],
    [
      'GET',
      '/v1/events?type=quote.created&type=quote.updated',
      (client) => client.events.list({ type: ['quote.created', 'quote.updated'] }).page(),
    ],
    [
      'POST',
      '/v1/webhook-endpoints',
      (client) => client.webhookEndpoints.create({ url: 'https://example.com' }),
    ],
    ['GET', '/v1/webhook-endpoints/x', (client) => client.webhookEndpoints.retrieve('x')],
    ['GET', '/v1/webhook-endpoints', (client) => client.webhookEndpoints.list().page()],
    ['PATCH', '/v1/webhook-endpoints/x', (client) => client.webhookEndpoints.update('x', { enabled: true })],
    ['DELETE', '/v1/webhook-endpoints/x', (client) => client.webhookEndpoints.delete('x')],
    ['POST', '/v1/webhook-endpoints/x/rotate-secret', (client) => client.webhookEndpoints.rotateSecret('x')],
    ['POST', '/v1/webhook-endpoints/x/test', (client) => client.webhookEndpoints.test('x')],
    [
      'GET',
      '/v1/webhook-endpoints/x/deliveries?status=pending',
      (client) => client.webhookEndpoints.deliveries('x', { status: 'pending' }).page(),
    ],
    [
      'POST',
      '/v1/webhook-endpoints/x/deliveries/y/resend',
      (client) => client.webhookEndpoints.resend('x', 'y'),
    ],
    [
      'POST',
      '/v1/webhook-endpoints/x/recover',
      (client) => client.webhookEndpoints.recover('x', { since: '2027-01-01T00:00:00Z' }),
    ],
    ['GET', '/v1/consumer', (client) => client.consumer.retrieve()],
  ];
  for (const [method, path, call] of each) {
    test(`${method} ${path}`, async () => {
      const { client, sent } = clientOf([json(200, {})]);
      await call(client);
      assert.equal(`${sent[0]?.method} ${sent[0]?.url}`, `${method} https://handoff.example.com/base${path}`);
      assert.equal(sent[0]?.headers.has('idempotency-key'), method !== 'GET');
    });
  }

  test('health resolves for 503 with a report, and not for a problem', async () => {
    const { client } = clientOf([
      json(503, { status: 'unavailable' }),
      problem(503, 'rate_limited'),
      json(200, { status: 'ok' }),
    ]);
    assert.equal((await client.health()).status, 'unavailable');
    assert.equal((await client.health()).status, 'ok');
  });

  test('a redirect is a problem: credentials are for one address', async () => {
    const { client } = clientOf([
      new Response(null, { status: 302, headers: { location: 'https://example.org' } }),
    ]);
    await assert.rejects(client.members.retrieve('x'), { code: 'http_302' });
  });

  test('what JSON cannot hold is refused', async () => {
    const { client } = clientOf([]);
    const details = { net: Number.NaN };
    await assert.rejects(client.handOff({ ...offer, result: { ...offer.result, details } }), /net is NaN/);
  });

  test('nothing is sent without credentials or id', () => {
    assert.throws(() => new HandoffClient({ ...credentials, apiSecret: '' }), /apiSecret is missing/);
    const { baseUrl } = credentials;
    assert.throws(
      () => new HandoffClient({ baseUrl, clientId: '', privateKey: { kty: 'EC' } }),
      /clientId is missing/,
    );
    assert.throws(() => clientOf([]).client.quotes.retrieve(''), /id is missing/);
  });

  test('nothing is signed for another service than the one that is asked', async () => {
    const { privateKey } = makeKeys('ES256');
    const options = { maxRetries: 0, clientId: 'con_x', privateKey: privateKey.export({ format: 'jwk' }) };
    const askedFor = async (baseUrl: string, issuer: string) => {
      const sent: string[] = [];
      const client = new HandoffClient({
        ...{ ...(options as KeyCredentials & CommonOptions), baseUrl },
        fetch: async (url) => {
          sent.push(url as string);
          return json(200, { issuer, access_token: 'x', expires_in: 600 });
        },
      });
      const outcome = await client.consumer.retrieve().then(
        () => 'asked',
        ({ message }: Error) => message,
      );
      return [outcome, sent.length];
    };
    const production = 'https://production.example.com';
    for (const baseUrl of ['https://staging.example.com', 'http://127.0.0.1:8080', `${production}:8443`])
      assert.deepEqual(await askedFor(baseUrl, production), [
        `no answer: the service at ${baseUrl} issues tokens as ${production}: baseUrl must be that address`,
        1,
      ]);
    assert.deepEqual(await askedFor(`${production}:443/base/`, production), ['asked', 3]);
    // Of one without a configured address.
    assert.deepEqual(await askedFor('http://localhost:8080', 'http://0.0.0.0:8081'), ['asked', 3]);
  });

  test('a credential that no header can hold is refused without being shown', () => {
    for (const name of ['apiKey', 'apiSecret'] as const) {
      assert.throws(() => new HandoffClient({ ...credentials, [name]: 'hidden\nhidden' }), {
        name: 'TypeError',
        message: `${name} has characters that no credential has`,
      });
    }
  });

  test('http: is refused, unless it is this machine or allowed', () => {
    const to =
      (baseUrl: string, options: Partial<CommonOptions> = {}) =>
      () =>
        new HandoffClient({ ...credentials, baseUrl, ...options });
    for (const host of [
      'handoff.example.com',
      '10.0.0.1:8080',
      '127.0.0.1.example',
      'localhost.example',
      '[::2]',
    ]) {
      assert.throws(to(`http://${host}`), { name: 'TypeError', message: /http:.*use https:/ });
      to(`http://${host}`, { allowInsecureHttp: true })();
      to(`https://${host}`)();
    }
    for (const host of ['localhost:8080', '127.0.0.1', '127.8.8.8', '[::1]:8080', 'gateway.localhost'])
      to(`http://${host}`)();
  });
});
