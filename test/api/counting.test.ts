import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { documentedRoutes } from '../../src/app/routes.ts';
import { eventually } from '../support/eventually.ts';
import { type Credentials, type RequestOptions, useGateway } from '../support/gateway.ts';
import { modernRequest } from '../support/mcp.ts';
import { connectRaw } from '../support/raw-client.ts';
import { firstWebhookSecret, memberEvent, signedRequest, webhookPath } from '../support/webhooks.ts';

interface Attempt {
  request_id: string;
  endpoint: string;
  result: string;
  count: number;
}

/** A request that a table sends; `endpoint`: the one that its log line names, where that is not its own. */
interface Row extends RequestOptions {
  path: string;
  endpoint?: string;
}

const routes = documentedRoutes();
const paths = [...new Set(routes.map(({ path }) => path))];
const filled = (path: string) =>
  path.replaceAll(/:(\w+)/g, (_, name: string) => (name === 'code' ? 'rate_limited' : randomUUID()));
const malformed = { body: '{', headers: { 'content-type': 'application/json' } };
const own = routes.map(({ method, path }) => ({ method, path: filled(path) }));
const writes = own.filter(({ method }) => method !== 'GET');

/** Every kind of refusal, on every route that it is for. */
const kinds: Record<string, readonly Row[]> = {
  'as the route has it': own,
  HEAD: own.filter(({ method }) => method === 'GET').map(({ path }) => ({ path, method: 'HEAD' })),
  OPTIONS: paths.map((path) => ({ path: filled(path), method: 'OPTIONS' })),
  'a method that the path does not have': paths.map((path) => ({ path: filled(path), method: 'PUT' })),
  'a query parameter that nobody knows': own.map((row) => ({ ...row, path: `${row.path}?nobody=knows` })),
  'a body that is no JSON': writes.map((row) => ({ ...row, ...malformed })),
  'a body of another type': writes.map((row) => ({
    ...row,
    body: '<a/>',
    headers: { 'content-type': 'text/xml' },
  })),
  'a body that is too large': writes.map((row) => ({ ...row, body: 'x'.repeat(1_048_577) })),
  'an X-Actor that is none': writes.map((row) => ({ ...row, headers: { 'x-actor': '%zz' } })),
  'paths that are none': ['/nothing', '/v1/quotes/', '/v1/%zz', '/v1/x?%'].map((path) => ({ path })),
};

describe('every request counts once', () => {
  const gateway = useGateway({
    ...{ TRUST_PROXIES: '127.0.0.1', RATE_LIMIT_PER_MINUTE: '5000' },
    ...{ RATE_LIMIT_FAILED_PER_MINUTE: '2', RATE_LIMIT_PUBLIC_PER_MINUTE: '2' },
  });
  let addresses = 0;
  /** A network that nothing has come from. */
  const newAddress = () => {
    addresses += 1;
    return `2001:db8:${(addresses >> 8).toString(16)}:${(addresses & 255).toString(16)}::1`;
  };

  const ask = ({ path, ...options }: Row, headers: Record<string, string>) =>
    gateway.request(path, { ...options, headers: { ...options.headers, ...headers } });

  async function attemptsOf(id: string, ids: ReadonlySet<string>): Promise<Attempt[]> {
    const found: Attempt[] = [];
    let cursor = '';
    do {
      const path = `/v1/admin/auth-attempts?limit=200&consumer_id=${id}${cursor && `&cursor=${cursor}`}`;
      const answer = await gateway.request(path, { as: gateway.admin });
      const page = (await answer.json()) as { data: Attempt[]; next_cursor: string | null };
      found.push(...page.data.filter(({ request_id }) => ids.has(request_id)));
      cursor = page.next_cursor ?? '';
    } while (cursor !== '');
    return found;
  }

  async function newConsumer(permissions: object[], more: object = {}): Promise<Credentials> {
    const body = { name: 'x', permissions, ...more };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    assert.equal(made.status, 201, await made.clone().text());
    return (await made.json()) as Credentials;
  }

  /** The log has one line for each request. A line is written once its answer is out. */
  async function assertLogged(ids: ReadonlySet<string>): Promise<void> {
    const lines = () =>
      gateway.logLines
        .filter(({ message, facts }) => message === 'request' && ids.has(String(facts['request_id'])))
        .map(({ facts }) => facts['request_id']);
    await eventually(() => assert.ok(lines().length >= ids.size));
    assert.equal(new Set(lines()).size, ids.size);
    assert.equal(lines().length, ids.size);
  }

  async function assertAttempted(id: string, ids: ReadonlySet<string>): Promise<void> {
    const sum = (attempts: readonly Attempt[]) => attempts.reduce((all, { count }) => all + count, 0);
    const found = await eventually(async () => {
      const attempts = await attemptsOf(id, ids);
      assert.ok(sum(attempts) >= ids.size);
      return attempts;
    });
    assert.equal(sum(found), ids.size);
    assert.equal(new Set(found.map(({ request_id }) => request_id)).size, found.length);
  }

  /** Sends them one after the other: each takes one of what is left. */
  async function assertCounts(as: Credentials, rows: readonly Row[]): Promise<ReadonlySet<string>> {
    const ids = new Set<string>();
    const left = async (row: Row): Promise<[number, Response]> => {
      const id = randomUUID();
      ids.add(id);
      const answer = await ask({ ...row, as }, { 'x-request-id': id });
      await answer.arrayBuffer();
      const what = `${row.method ?? 'GET'} ${row.path.slice(0, 100)}: ${answer.status}`;
      const [, r] = /^"requests";r=(\d+);/.exec(answer.headers.get('ratelimit') ?? '') ?? assert.fail(what);
      return [Number(r), answer];
    };
    let [before] = await left({ path: '/v1/consumer' });
    for (const row of rows) {
      const [now, { status }] = await left(row);
      assert.equal(before - now, 1, `${row.method ?? 'GET'} ${row.path.slice(0, 100)}: ${status}`);
      assert.ok(status < 500, `${row.path}: ${status}`);
      before = now;
    }
    return ids;
  }

  describe('with valid credentials, by the limit of its consumer:', () => {
    for (const [kind, rows] of Object.entries(kinds)) {
      test(kind, async () => {
        const all = ['quotes', 'bookings'].map((resource) => ({
          resource,
          actions: ['read', 'write', 'delete'],
        }));
        const as = await newConsumer(all);
        const ids = await assertCounts(as, rows);
        await assertLogged(ids);
        await assertAttempted(as.id, ids);
      });
    }

    test('that lack nearly every permission', async () => {
      const as = await newConsumer([{ resource: 'members', actions: ['read'] }]);
      const ids = await assertCounts(as, own);
      await assertLogged(ids);
      assert.ok(ids.size > 60);
      // Of refusals beyond 60 a minute one row has the count.
      await assertAttempted(as.id, ids);
    });
  });

  describe('at /mcp, whatever becomes of the message:', () => {
    const { body, headers } = modernRequest('tools/call', { name: 'list_quotes', arguments: {} });
    const call: Row = { path: '/mcp', body, headers, endpoint: 'GET /v1/quotes' };
    const message = (method: string, params: object = {}): Row => ({
      path: '/mcp',
      ...modernRequest(method, params),
    });
    const rows: Record<string, Row> = {
      'a call': call,
      'a call with another parameter': { ...call, path: '/mcp?x=1', endpoint: 'POST /mcp' },
      'a call with an X-Actor that is none': {
        ...call,
        headers: { ...headers, 'x-actor': '%zz' },
        endpoint: 'POST /mcp',
      },
      'a call from a page of another host': {
        ...call,
        headers: { ...headers, origin: 'https://elsewhere.example' },
        endpoint: 'POST /mcp',
      },
      'a call without a permission': {
        ...message('tools/call', { name: 'search_members', arguments: {} }),
        endpoint: 'GET /v1/members',
      },
      'a call with unknown arguments': {
        ...message('tools/call', { name: 'list_quotes', arguments: { nobody: 'knows' } }),
        endpoint: 'GET /v1/quotes',
      },
      'a tool that is not there': message('tools/call', { name: 'nothing', arguments: {} }),
      'the list of tools': message('tools/list'),
      'no such method': message('nothing/at/all'),
      'a notification': { path: '/mcp', body: { jsonrpc: '2.0', method: 'notifications/initialized' } },
      'no message': { path: '/mcp', body: [] },
      'no JSON': { path: '/mcp', body: '{' },
      'no content type': { path: '/mcp', body: '{}', headers: { 'content-type': 'text/plain' } },
    };
    const quotes = [{ resource: 'quotes', actions: ['read'] }];

    for (const [kind, row] of Object.entries(rows)) {
      test(kind, async () => {
        const as = await newConsumer(quotes);
        const ids = await assertCounts(as, [row, row, row]);
        await assertLogged(ids);
        await assertAttempted(as.id, ids);
        const endpoints = (await attemptsOf(as.id, ids)).map(({ endpoint }) => endpoint);
        const { endpoint = 'POST /mcp' } = row;
        assert.deepEqual(endpoints.toSorted(), [...Array(3).fill(endpoint), 'GET /v1/consumer'].toSorted());
      });
    }

    test('beyond the limit the answer is 429, of a call in its result', async () => {
      const as = await newConsumer(quotes, { rateLimitPerMinute: 1 });
      assert.equal((await ask({ path: '/v1/healthz', as }, {})).status, 200);
      for (const [kind, row] of Object.entries(rows)) {
        const answer = await ask({ ...row, as }, {});
        if (row.endpoint === undefined || row.endpoint === 'POST /mcp') {
          assert.equal(answer.status, 429, kind);
          continue;
        }
        const { result } = (await answer.json()) as { result: { structuredContent: { code: string } } };
        // Its route says what comes before the limit.
        const code = kind === 'a call without a permission' ? 'permission_denied' : 'rate_limited';
        assert.equal(result.structuredContent.code, code, kind);
      }
    });

    test('a key that is only tried there is shown as used', async () => {
      const as = await newConsumer(quotes);
      await ask({ ...call, path: '/mcp?x=1', as }, {});
      const used = async () => {
        const answer = await gateway.request(`/v1/admin/consumers/${as.id}`, { as: gateway.admin });
        return ((await answer.json()) as { lastUsedAt: string | null }).lastUsedAt;
      };
      await eventually(async () => assert.notEqual(await used(), null));
    });
  });

  /** What a network has left of the two of each limit, found by using it up. */
  async function leftOf(address: string): Promise<{ failed: number; open: number }> {
    const headers = { 'x-forwarded-for': address };
    const untilRefused = async (as: Credentials | null) => {
      let count = 0;
      while ((await ask({ path: '/v1/healthz', as }, headers)).status !== 429) count += 1;
      return count;
    };
    const wrong = { ...gateway.console, apiSecret: 'wrong' };
    return { failed: await untilRefused(wrong), open: await untilRefused(null) };
  }

  /** Of each request from a network of its own. */
  async function assertCountsFor(
    as: Credentials | null,
    rows: readonly Row[],
    left: { failed: number; open: number },
  ): Promise<ReadonlySet<string>> {
    const ids = new Set<string>();
    for (const row of rows) {
      const address = newAddress();
      const id = randomUUID();
      ids.add(id);
      const answer = await ask({ ...row, as }, { 'x-forwarded-for': address, 'x-request-id': id });
      await answer.arrayBuffer();
      const what = `${row.method ?? 'GET'} ${row.path.slice(0, 100)}: ${answer.status}`;
      assert.ok(answer.status !== 429 && answer.status < 500, what);
      assert.deepEqual(await leftOf(address), left, what);
    }
    return ids;
  }

  // The framework refuses a path that it cannot decode before it knows whom the proxy speaks for.
  const decodable = (rows: readonly Row[]) => rows.filter(({ path }) => !path.includes('%'));

  describe('with wrong credentials, by the limit of failures of its address:', () => {
    for (const [kind, rows] of Object.entries(kinds)) {
      test(kind, async () => {
        const shop = await newConsumer([{ resource: 'members', actions: ['read'] }]);
        const wrong = { ...shop, apiSecret: 'wrong' };
        const ids = await assertCountsFor(wrong, decodable(rows), { failed: 1, open: 2 });
        await assertLogged(ids);
        await assertAttempted(shop.id, ids);
      });
    }
  });

  describe('without any, by the limit of its address:', () => {
    for (const [kind, rows] of Object.entries(kinds)) {
      test(kind, async () => {
        await assertLogged(await assertCountsFor(null, decodable(rows), { failed: 2, open: 1 }));
      });
    }
  });

  test('with a signature, by whether that is right', async () => {
    const secret = await firstWebhookSecret(gateway);
    const signed = signedRequest(secret, memberEvent(gateway.org.memberId));
    const send = (change: Record<string, string>): Row => ({
      ...signed,
      path: webhookPath,
      headers: { ...(signed.headers as Record<string, string>), ...change },
    });
    const wrong = send({ 'webhook-signature': `v1,${'A'.repeat(43)}=` });
    await assertLogged(await assertCountsFor(null, [wrong], { failed: 1, open: 2 }));
    await assertLogged(await assertCountsFor(null, [send({})], { failed: 2, open: 2 }));
  });

  test('with a signature and credentials, by the credentials, with an attempt', async () => {
    const shop = await newConsumer([{ resource: 'members', actions: ['read'] }]);
    const secret = await firstWebhookSecret(gateway);
    const signed = () => ({
      ...signedRequest(secret, memberEvent(gateway.org.memberId)),
      path: webhookPath,
    });
    const ids = await assertCounts(shop, [signed(), signed()] as Row[]);
    const wrong = { ...shop, apiSecret: 'wrong' };
    const failed = await assertCountsFor(wrong, [signed()] as Row[], { failed: 1, open: 2 });
    const all = new Set([...ids, ...failed]);
    await assertLogged(all);
    await assertAttempted(shop.id, all);
  });

  describe('without a head that is HTTP, by the limit of its address:', () => {
    const inputs = {
      'no HTTP': ['this is no HTTP\r\n\r\n', 400],
      'a head that is too large': [`GET / HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(20_000)}`, 431],
      'the preface of HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
      'two lengths': [
        'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
        400,
      ],
    } as const;
    let last = 100;
    const lineOf = (id: string | undefined) =>
      gateway.logLines.filter(({ facts }) => facts['request_id'] === id);

    for (const [kind, [input, status]] of Object.entries(inputs)) {
      test(kind, async () => {
        last += 1;
        const address = `127.0.0.${last}`;
        const send = async () => {
          const client = await connectRaw(gateway.url, address);
          client.write(input);
          const answer = await client.answer();
          client.socket.destroy();
          const lines = await eventually(() => {
            const found = lineOf(answer?.headers['x-request-id']);
            assert.equal(found.length, 1);
            return found;
          });
          assert.partialDeepStrictEqual(lines[0], {
            message: 'request',
            facts: { endpoint: 'none', address, status: answer?.status },
          });
          return answer;
        };
        assert.equal((await send())?.status, status);
        assert.equal((await send())?.status, status);
        const beyond = await send();
        assert.equal(beyond?.status, 429);
        assert.ok(Number(beyond.headers['retry-after']) > 0);
        assert.match(beyond.headers['ratelimit'] ?? '', /^"public";r=0/);
      });
    }

    test('a connection that is opened ahead of need, and one that ends, leave nothing', async () => {
      const before = gateway.logLines.length;
      const client = await connectRaw(gateway.url, '127.0.0.99');
      client.socket.end();
      await client.closed;
      assert.deepEqual(
        gateway.logLines.slice(before).filter(({ message }) => message === 'request'),
        [],
      );
    });
  });

  test('CONNECT is answered, logged and counted like any method that a path does not have', async () => {
    const shop = await newConsumer([{ resource: 'members', actions: ['read'] }]);
    const id = randomUUID();
    const client = await connectRaw(gateway.url);
    const pair = `x-api-key: ${shop.apiKey}\r\nx-api-secret: ${shop.apiSecret}`;
    const next = 'GET /v1/healthz HTTP/1.1\r\nhost: x\r\nx-request-id: tunnelled\r\n\r\n';
    client.write(
      `CONNECT example.org:443 HTTP/1.1\r\nhost: x\r\nx-request-id: ${id}\r\n${pair}\r\n\r\n${next}`,
    );
    const answer = await client.answer();
    assert.equal(answer?.status, 404);
    assert.match(answer.headers['ratelimit'] ?? '', /r=4999;/);
    assert.equal(answer.headers['connection'], 'close');
    assert.equal(await client.answer(), undefined, 'what follows is nobody’s request');
    await assertLogged(new Set([id]));
    await assertAttempted(shop.id, new Set([id]));
    await client.closed;
    assert.equal((await gateway.request('/v1/healthz', { as: shop })).status, 200);
  });

  test('at the token endpoint by the credentials of the form, or of its header', async () => {
    const shop = await newConsumer([{ resource: 'quotes', actions: ['read'] }]);
    const form = (fields: Record<string, string>): Row => ({
      path: '/oauth/token',
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: 'client_credentials', ...fields }).toString(),
    });
    const pair = { client_id: shop.apiKey, client_secret: shop.apiSecret };
    const wrong = { ...pair, client_secret: 'wrong' };
    const basic = (secret: string): Row => ({
      path: '/oauth/token',
      body: '{}',
      headers: {
        authorization: `Basic ${Buffer.from(`${shop.apiKey}:${secret}`).toString('base64')}`,
      },
    });
    const known = [form(pair), form({ ...pair, scope: 'bookings:read' }), basic(shop.apiSecret)];
    const ofShop = await assertCountsFor(null, known, { failed: 2, open: 2 });
    const ofFailures = await assertCountsFor(null, [form(wrong), basic('wrong')], { failed: 1, open: 2 });
    const ids = new Set([...ofShop, ...ofFailures]);
    await assertLogged(ids);
    await assertAttempted(shop.id, ids);
    await assertLogged(await assertCountsFor(null, [form({})], { failed: 2, open: 1 }));
    const answer = await ask({ path: '/v1/consumer', as: shop }, {});
    assert.match(answer.headers.get('ratelimit') ?? '', /r=4996;/);
  });
});
