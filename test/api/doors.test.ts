import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { useGateway } from '../support/gateway.ts';
import { offerFor } from '../support/handoffs.ts';

describe('the ports of the service', () => {
  const gateway = useGateway();

  describe('every door of the service', () => {
    /** Sends bytes as they are and returns the whole answer. */
    async function raw(bytes: string): Promise<{ status: number; headers: string; body: string }> {
      const { hostname, port } = new URL(gateway.url);
      const socket = connect(Number(port), hostname);
      let answer = '';
      socket.setEncoding('utf8').on('data', (chunk: unknown) => {
        answer += String(chunk);
      });
      socket.write(bytes);
      await once(socket, 'close');
      const [headers = '', body = ''] = answer.split('\r\n\r\n');
      return { status: Number(headers.split(' ')[1]), headers: headers.toLowerCase(), body };
    }

    for (const [what, bytes, status] of [
      ['what is no HTTP', 'hello\r\n\r\n', 400],
      ['a header line that is none', 'GET / HTTP/1.1\r\nhost: a\r\nbroken\r\n\r\n', 400],
      ['headers that are too large', `GET / HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`, 431],
      ['a method that HTTP does not know', 'FETCH / HTTP/1.1\r\nhost: a\r\n\r\n', 400],
    ] as const) {
      test(`answers ${what} with a problem`, async () => {
        const answer = await raw(bytes);
        assert.equal(answer.status, status);
        assert.match(answer.headers, /content-type: application\/problem\+json/);
        const problem = JSON.parse(answer.body);
        assert.equal(problem.status, status);
        assert.equal(problem.code, 'invalid_request');
        assert.match(answer.headers, new RegExp(`x-request-id: ${problem.request_id}`));
      });
    }

    for (const [what, head] of [
      ['without a Host', 'HTTP/1.1'],
      ['with two Hosts', 'HTTP/1.1\r\nhost: a\r\nHOST: a'],
      ['with two Hosts, of an earlier version', 'HTTP/1.0\r\nhost: a\r\nhost: b'],
      ['with a Host that is empty', 'HTTP/1.1\r\nhost:'],
      ['with a Host that is a URL', 'HTTP/1.1\r\nhost: http://a'],
      ['with a Host that has a user', 'HTTP/1.1\r\nhost: user@a'],
      ['with a list of Hosts', 'HTTP/1.1\r\nhost: a, b'],
      ['with a port that is none', 'HTTP/1.1\r\nhost: a:65536'],
      ['with an IPv6 address that is none', 'HTTP/1.1\r\nhost: [:::1]:80'],
      ['of HTTP/0.9', 'HTTP/0.9\r\nhost: a'],
      ['of HTTP/0.9, as that was', ''],
      ['of HTTP/2 in the words of HTTP/1', 'HTTP/2.0\r\nhost: a'],
    ] as const) {
      test(`answers a request ${what} with a problem, and logs it`, async () => {
        const id = randomUUID();
        const request = `GET /v1/healthz${head && ` ${head}\r\nx-request-id: ${id}\r\nconnection: close`}\r\n\r\n`;
        const { status, body } = await raw(request);
        assert.equal(status, 400);
        assert.equal(JSON.parse(body).code, 'invalid_request');
        const logged = gateway.logLines.filter(
          ({ facts }) => facts['request_id'] === JSON.parse(body).request_id,
        );
        assert.deepEqual(
          logged.map(({ message, facts }) => [message, facts['status']]),
          [['request', 400]],
        );
      });
    }

    test('takes every Host that is one', async () => {
      for (const host of ['a', 'a.example:8080', '127.0.0.1', 'gateway_1:80', '[::1]:8080', 'a.example.']) {
        const head = `GET /v1/healthz HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;
        assert.equal((await raw(head)).status, 200, host);
      }
      assert.equal((await raw('GET /v1/healthz HTTP/1.0\r\n\r\n')).status, 200);
    });

    test('answers a path that can not be decoded, and one that does not exist', async () => {
      for (const [path, status, code] of [
        ['/v1/%zz', 400, 'invalid_request'],
        ['/nothing/here', 404, 'not_found'],
        ['/metrics', 404, 'not_found'],
        [`/v1/${'x'.repeat(2000)}`, 404, 'not_found'],
      ] as const) {
        const response = await gateway.request(path, { as: null });
        assert.equal(response.status, status, path);
        assert.equal(response.headers.get('content-type'), 'application/problem+json');
        assert.equal(((await response.json()) as { code: string }).code, code);
      }
    });

    test('answers a known path with another method with 405 and what it allows, without credentials', async () => {
      for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'PROPFIND']) {
        const response = await gateway.request('/api/v1/handoff', { method, as: null });
        assert.equal(response.status, 405, method);
        assert.equal(response.headers.get('allow'), 'OPTIONS, POST');
        assert.equal(((await response.json()) as { code: string }).code, 'method_not_allowed');
      }
      // fetch refuses to send this one.
      const trace = await raw('TRACE /v1/healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
      assert.equal(trace.status, 405);
      assert.match(trace.headers, /allow: get, head, options/);
    });

    test('names the request and forbids guesses at its type in each answer', async () => {
      const { apiKey, apiSecret } = gateway.console;
      const lines = (...more: string[]) => ['host: a', 'connection: close', ...more].join('\r\n');
      const known = lines(`x-api-key: ${apiKey}`, `x-api-secret: ${apiSecret}`);
      const json = `${known}\r\ncontent-type: application/json`;
      const key = `idempotency-key: ${randomUUID()}`;
      const paths = ['/v1/docs', '/llms.txt', '/oauth/jwks'];
      const requests: [start: string, head: string, status: number, body?: string][] = [
        ...paths.map((path): [string, string, number] => [`GET ${path}`, lines(), 200]),
        ...paths.map((path): [string, string, number] => [`HEAD ${path}`, lines(), 200]),
        ['GET /console/sign-in', lines(), 404],
        ['GET /oauth/authorize', lines(), 400],
        ['POST /oauth/token', lines('content-length: 0'), 401],
        ['POST /mcp', `${json}\r\ncontent-length: 1`, 400, '{'],
        ['GET /v1/quotes', known, 200],
        ['HEAD /v1/quotes', known, 200],
        ['GET /v1/quotes', lines(), 401],
        ['GET /v1/admin/consumers', known, 403],
        [`GET /v1/quotes/${randomUUID()}`, known, 404],
        ['GET /v1/quotes?x=1', known, 400],
        ['GET /v1/quotes/', known, 404],
        ['GET /nothing', known, 404],
        ['HEAD /nothing', known, 404],
        ['OPTIONS /nothing', known, 404],
        ['OPTIONS /v1/quotes', lines(), 204],
        ['PUT /v1/quotes', lines('content-length: 0'), 405],
        ['CONNECT a:443', lines(), 404],
        ['GET /v1/%zz', lines(), 400],
        ['HEAD /v1/%zz', lines(), 400],
        ['GET *', known, 404],
        ['GET /v1/healthz', lines('host: b'), 400],
        ['POST /v1/quotes', `${json}\r\n${key}\r\ncontent-length: 2000000`, 413, '{}'],
        ['POST /v1/quotes', `${known}\r\ncontent-type: a/b\r\ncontent-length: 2`, 415, '{}'],
        ['POST /v1/quotes', `${json}\r\n${key}\r\ncontent-length: 1`, 400, '{'],
        ['POST /v1/quotes', `${json}\r\n${key}\r\ntransfer-encoding: chunked`, 400, '2\r\n{}\r\nno\r\n'],
        [`GET /v1/quotes/${'x'.repeat(20_000)}`, lines(), 431],
        ['FETCH /', lines(), 400],
      ];
      for (const [start, head, status, body = ''] of requests) {
        const answer = await raw(`${start} HTTP/1.1\r\n${head}\r\n\r\n${body}`);
        const said = `${start.slice(0, 60)} ${answer.headers}`;
        assert.equal(answer.status, status, said);
        assert.match(answer.headers, /\r\nx-request-id: [\w-]{36}/, said);
        assert.match(answer.headers, /\r\nx-content-type-options: nosniff/, said);
        assert.match(answer.headers, /\r\ncache-control: \w/, said);
        assert.equal(answer.headers.match(/\r\ncache-control:/g)?.length, 1, said);
      }
    });

    test('answers OPTIONS with what a path allows, and HEAD like GET without a body', async () => {
      const options = await gateway.request('/v1/healthz', { method: 'OPTIONS', as: null });
      assert.equal(options.status, 204);
      assert.equal(options.headers.get('allow'), 'GET, HEAD, OPTIONS');
      const head = await gateway.request('/v1/healthz', { method: 'HEAD', as: null });
      assert.equal(head.status, 200);
      assert.equal(await head.text(), '');
    });

    test('takes a request id that is acceptable and replaces any other', async () => {
      const idOf = async (id: string) => {
        const response = await gateway.request('/v1/healthz', { as: null, headers: { 'x-request-id': id } });
        return response.headers.get('x-request-id');
      };
      assert.equal(await idOf('order-1.2_3'), 'order-1.2_3');
      for (const bad of ['', 'a b', 'x'.repeat(129), 'a;b'])
        assert.match((await idOf(bad)) ?? '', /^[0-9a-f-]{36}$/);
    });
  });

  describe('GET /v1/healthz', () => {
    test('shows who the gateway is in the CRM, and that everything is connected', async () => {
      const response = await gateway.request('/v1/healthz', { as: null });
      assert.equal(response.status, 200);
      const body = (await response.json()) as Record<
        string,
        { connected: boolean; user: { Id: string; Name: string } }
      >;
      assert.equal(body.status, 'ok');
      assert.equal(body.crm?.connected, true);
      assert.match(body.crm?.user.Id ?? '', /^005[A-Za-z0-9]{15}$/);
      assert.equal(body.crm?.user.Name, 'Handoff Gateway Integration');
      for (const name of ['secretsManager', 'database', 'cache'])
        assert.equal(body[name]?.connected, true, name);
    });

    test('a flood of it costs the CRM next to nothing', async () => {
      await gateway.org.untilDescribed();
      const before = await gateway.org.counters();
      await Promise.all(Array.from({ length: 200 }, () => gateway.request('/v1/healthz', { as: null })));
      const after = await gateway.org.counters();
      assert.deepEqual(after.metered, before.metered);
    });
  });

  describe('GET /v1/docs', () => {
    test('is the OpenAPI document of every route', async () => {
      const response = await gateway.request('/v1/docs', { as: null });
      assert.equal(response.status, 200);
      assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
      const document = (await response.json()) as { openapi: string; paths: Record<string, object> };
      assert.equal(document.openapi, '3.1.0');
      for (const path of ['/api/v1/handoff', '/v1/healthz', '/v1/docs'])
        assert.ok(document.paths[path], path);
    });

    test('is a readable page for a browser, with no asset from another host', async () => {
      const headers = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
      const page = await gateway.request('/v1/docs', { as: null, headers });
      assert.match(page.headers.get('content-type') ?? '', /^text\/html/);
      const html = await page.text();
      assert.doesNotMatch(html, /(src|href)="?(https?:)?\/\//);
      assert.match(html, /<html lang="en">/);
      assert.match(page.headers.get('content-security-policy') ?? '', /script-src 'self';/);
      const sources = [...html.matchAll(/<script src="([^"]+)"/g)].map(([, source = '']) => source);
      assert.equal(sources.length, 2);
      for (const source of sources) {
        const script = await gateway.request(source, { as: null });
        assert.equal(script.status, 200);
        assert.match(script.headers.get('content-type') ?? '', /javascript/);
      }
    });

    test('is compressed for whom takes that, and not sent again to whom has it', async () => {
      for (const path of ['/v1/docs', '/v1/docs/scalar.js', '/v1/docs/start.js']) {
        const ask = (headers: Record<string, string>) => gateway.request(path, { as: null, headers });
        const plain = await ask({ 'accept-encoding': 'identity' });
        assert.equal(plain.headers.get('content-encoding'), null);
        const text = await plain.text();
        for (const [accepted, encoding] of [
          ['gzip', 'gzip'],
          ['br, GZIP;q=0.5', 'gzip'],
          ['*', 'gzip'],
          ['br', null],
          ['gzip;q=0, *', null],
          ['gzip; q=0.0', null],
          ['', null],
        ] as const) {
          const answer = await ask({ 'accept-encoding': accepted });
          assert.equal(answer.headers.get('content-encoding'), encoding, accepted);
          assert.match(answer.headers.get('vary') ?? '', /\bAccept-Encoding$/);
          assert.equal(await answer.text(), text);
          const tag = answer.headers.get('etag') ?? '';
          assert.equal(tag === plain.headers.get('etag'), encoding === null);
          const again = await ask({ 'accept-encoding': accepted, 'if-none-match': tag });
          assert.equal(again.status, 304);
          assert.equal(again.headers.get('etag'), tag);
          assert.equal(await again.text(), '');
        }
      }
    });
  });

  describe('the port for operations', () => {
    test('serves liveness, readiness and metrics, which the API port does not', async () => {
      for (const [path, text] of [
        ['/livez', 'alive'],
        ['/readyz', 'ready'],
      ] as const) {
        const response = await fetch(gateway.operationsUrl + path);
        assert.equal(response.status, 200);
        assert.equal((await response.text()).trim(), text);
        assert.equal((await gateway.request(path, { as: null })).status, 404);
      }
    });

    test('counts requests by route, and hits and misses of the token cache', async () => {
      const handOff = () => gateway.request('/api/v1/handoff', { body: offerFor(gateway.org.memberId) });
      const accepted = async () => {
        const all = await gateway.metrics();
        return Number(
          /^handoff_authentication_attempts_total\{result="accepted"\} (\d+)$/m.exec(all)?.[1] ?? 0,
        );
      };
      const before = await accepted();
      assert.equal((await handOff()).status, 201);
      assert.equal((await handOff()).status, 201);
      const metrics = await gateway.metrics();
      assert.match(
        metrics,
        /http_server_request_duration_seconds_count\{[^}]*http_route="\/api\/v1\/handoff"[^}]*\} 2/,
      );
      assert.match(metrics, /^handoff_crm_token_cache_hits_total [1-9]/m);
      assert.match(metrics, /^handoff_crm_token_cache_misses_total 1$/m);
      assert.equal(await accepted(), before + 2);
    });
  });
});
