import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { samplesOf } from '../support/metrics-lint.ts';
import { listOperations } from '../support/operations.ts';
import { assertProblem } from '../support/problems.ts';
import { connectRaw, type RawAnswer, type RawClient } from '../support/raw-client.ts';

describe('requests that nobody should send', () => {
  let gateway: TestGateway;
  const opened: RawClient[] = [];

  before(async () => {
    gateway = await startGateway();
  });
  after(() => {
    for (const { socket } of opened) socket.destroy();
  });

  const connect = async () => {
    const client = await connectRaw(gateway.url);
    opened.push(client);
    return client;
  };
  const credentials = () =>
    `x-api-key: ${gateway.console.apiKey}\r\nx-api-secret: ${gateway.console.apiSecret}\r\n`;
  const head = (method: string, path: string, ...headers: string[]) =>
    `${method} ${path} HTTP/1.1\r\nhost: x\r\n${headers.map((line) => `${line}\r\n`).join('')}`;
  const codeOf = ({ body }: RawAnswer) => (JSON.parse(String(body)) as { code: string }).code;
  const logOf = (id: string) => gateway.logLines.filter(({ facts }) => facts['request_id'] === id);
  async function activeRequests(): Promise<number | undefined> {
    const page = await gateway.metrics();
    return samplesOf(page).find(({ name }) => name === 'http_server_active_requests')?.value;
  }

  /** Sends a content type and no body, and waits until the request is logged. */
  async function sendTypeOnly(client: RawClient, method: string, path: string) {
    const id = randomUUID();
    const key = `idempotency-key: ${randomUUID()}`;
    const type = 'content-type: application/json';
    client.write(`${head(method, path, type, key, `x-request-id: ${id}`)}${credentials()}\r\n`);
    const answer = await client.answer();
    assert.ok(answer && answer.status < 500, `${method} ${path}`);
    if (answer.headers['connection'] === 'close') Object.assign(client, await connect());
    await eventually(() => assert.ok(logOf(id).some(({ message }) => message === 'request')), { everyMs: 5 });
    const [line] = logOf(id).filter(({ message }) => message === 'request');
    assert.equal(line?.facts['status'], answer.status);
    return { answer, result: line.facts['result'] };
  }

  test('a body that is not taken has each of its members named', async () => {
    const many = Array.from({ length: 20 }, (_, n) => `m${n}`);
    for (const [body, ...pointers] of [
      [{ surprise: 1, 'a/b': 2 }, '#/surprise', '#/a~1b'],
      [[1], '#'],
      [Object.fromEntries([...many, 'more'].map((name) => [name, 1])), ...many.map((name) => `#/${name}`)],
    ] as [object, ...string[]][]) {
      const headers = { 'idempotency-key': randomUUID() };
      const sent = gateway.request(`/v1/quotes/${randomUUID()}`, { method: 'DELETE', body, headers });
      await assertProblem(await sent, 400, 'invalid_request', ...pointers);
    }
  });

  test('a content type and no body are an empty body, on every path and with every method', async () => {
    const operations = await listOperations(gateway.url);
    const client = await connect();
    for (const { method, path, isPublic, needsBody } of operations) {
      const { answer, result } = await sendTypeOnly(client, method, path);
      assert.notEqual(result, undefined, `${method} ${path}: an attempt`);
      // The console may not administrate: it gets 403 there.
      if (needsBody && !isPublic && answer.status !== 403) {
        assert.deepEqual([answer.status, codeOf(answer)], [400, 'malformed_json'], `${method} ${path}`);
      }
    }
    for (const path of new Set(operations.map((one) => one.path)).add('/nothing/here')) {
      for (const method of ['POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS', 'GET', 'PROPFIND']) {
        await sendTypeOnly(client, method, path);
      }
    }
    assert.equal(await activeRequests(), 0);
  });

  test('a path parameter of any length and content is 400 or 404', async () => {
    const client = await connect();
    const operations = (await listOperations(gateway.url)).filter(({ path }) => /[0-9a-f-]{36}/.test(path));
    assert.ok(operations.length > 8);
    const parameters = [
      'x'.repeat(201),
      'x'.repeat(400),
      'x'.repeat(15_000),
      '%00',
      '%F0%9F%98%80'.repeat(500),
    ];
    for (const { method, path } of operations) {
      for (const parameter of [...parameters, '%ff', '%zz', "'%20or%201=1", '%2e%2e%2f', '..']) {
        const odd = path.replace(/[0-9a-f-]{36}/, parameter);
        const id = randomUUID();
        const isAdmin = path.includes('/admin/');
        const { apiKey, apiSecret } = isAdmin ? gateway.admin : gateway.console;
        const headers = [`x-api-key: ${apiKey}`, `x-api-secret: ${apiSecret}`, `x-request-id: ${id}`];
        client.write(`${head(method, odd, ...headers, `idempotency-key: ${randomUUID()}`)}\r\n`);
        const answer = await client.answer();
        assert.ok(
          [400, 404].includes(answer?.status ?? 0),
          `${method} ${odd.slice(0, 60)}: ${answer?.status}`,
        );
        if (answer?.headers['connection'] === 'close') Object.assign(client, await connect());
        assert.ok(!JSON.stringify(logOf(id)).includes('xxxx'));
      }
    }
    assert.deepEqual(
      gateway.logLines.filter(({ level }) => level === 'error'),
      [],
    );
  });

  test('a URI over 16 KiB is 431, and the answer is seen by a client that still sends', async () => {
    const client = await connect();
    client.write(`GET /v1/quotes/${'x'.repeat(16_384)}`);
    client.write('x'.repeat(500_000));
    const answer = await client.answer();
    assert.equal(answer?.status, 431);
    assert.equal(codeOf(answer), 'invalid_request');
  });

  for (const [method, path, status] of [
    ['POST', '/nothing', 404],
    ['PUT', '/v1/quotes', 405],
    ['POST', '/v1/quotes', 401],
    ['OPTIONS', '/v1/quotes', 204],
  ] as const) {
    test(`${method} ${path} is answered with ${status} before its body is read, whatever that is`, async () => {
      const type = 'content-type: application/json';
      const send = async (headers: string[], body: string | Uint8Array) => {
        const client = await connect();
        client.write(`${head(method, path, type, ...headers)}\r\n`);
        client.write(body);
        const answer = await client.answer();
        assert.equal(answer?.status, status);
        return { client, answer };
      };
      const small = await send(['content-length: 1'], '{');
      small.client.write(`${head('GET', '/v1/healthz')}\r\n`);
      assert.equal((await small.client.answer())?.status, 200, 'the connection is used again');
      // Not read to its end, so that the connection can't be used again.
      const large = await send([`content-length: ${8 * 1_048_576}`], Buffer.alloc(2 * 1_048_576, 'x'));
      assert.equal(large.answer.headers['connection'], 'close');
      const endless = await send(['transfer-encoding: chunked'], '5\r\n{"a":\r\n');
      assert.equal(endless.answer.headers['connection'], 'close');
      const broken = await send(['transfer-encoding: chunked'], '5\r\n{"a":\r\nno chunk\r\n');
      assert.equal(await broken.client.answer(), undefined, 'no second answer');
      const expecting = await send(['content-length: 2000000', 'expect: 100-continue'], '');
      assert.equal(await Promise.race([expecting.client.answer(), sleep(50)]), undefined);
      await send(['content-length: 100'], '{');
    });
  }

  test('a body that is too large is refused, and the answer is seen by a client that sends all of it', async () => {
    for (const framing of ['content-length: 4000000', 'transfer-encoding: chunked']) {
      const client = await connect();
      client.write(
        `${head('POST', '/v1/quotes', 'content-type: application/json', framing)}${credentials()}\r\n`,
      );
      const isChunked = framing.startsWith('transfer');
      for (let sent = 0; sent < 4_000_000; sent += 100_000) {
        client.write(`${isChunked ? '186a0\r\n' : ''}${'x'.repeat(100_000)}${isChunked ? '\r\n' : ''}`);
      }
      if (isChunked) client.write('0\r\n\r\n');
      const answer = await client.answer();
      assert.equal(answer?.status, 413);
    }
  });

  test('100 Continue is sent where the body is wanted', async () => {
    const client = await connect();
    const headers = ['content-type: application/json', 'content-length: 2', 'expect: 100-continue'];
    client.write(`${head('POST', '/api/v1/handoff', ...headers)}${credentials()}\r\n`);
    assert.equal((await client.answer())?.status, 100);
    client.write('{}');
    assert.equal((await client.answer())?.status, 400);
  });

  test('a request without Host, and one with an expectation that nobody knows, are answered and logged', async () => {
    const client = await connect();
    client.write('GET /v1/healthz HTTP/1.1\r\nx-request-id: no-host\r\n\r\n');
    const answer = await client.answer();
    assert.equal(answer?.status, 400);
    assert.equal(codeOf(answer), 'invalid_request');
    client.write(`${head('GET', '/v1/healthz', 'expect: cake')}\r\n`);
    assert.equal((await client.answer())?.status, 200);
    assert.equal(logOf('no-host').length, 1);
  });

  test('what is no HTTP, after a request, is refused after the answer to that request', async () => {
    const client = await connect();
    client.write(`${head('GET', '/v1/quotes')}${credentials()}\r\nthis is no HTTP\r\n\r\n`);
    assert.equal((await client.answer())?.status, 200);
    assert.equal((await client.answer())?.status, 400);
    assert.equal(await client.answer(), undefined);
  });

  test('a body whose chunks are broken is 400, and is logged as that', async () => {
    const client = await connect();
    const headers = ['content-type: application/json', 'transfer-encoding: chunked', 'x-request-id: chunks'];
    client.write(`${head('POST', '/v1/quotes', ...headers)}${credentials()}\r\n`);
    client.write('2\r\n{}\r\nno chunk\r\n');
    assert.equal((await client.answer())?.status, 400);
    assert.equal(await client.answer(), undefined);
    const [line] = logOf('chunks').filter(({ message }) => message === 'request');
    assert.equal(line?.facts['status'], 400);
    assert.equal(line.facts['hung_up'], undefined);
  });

  test('none of them holds up the stop', async () => {
    const [typeOnly, refused, tooLarge] = [await connect(), await connect(), await connect()];
    const type = 'content-type: application/json';
    typeOnly.write(`${head('POST', '/v1/webhooks/crm/members', type)}\r\n`);
    refused.write(`${head('POST', '/nothing', type, 'content-length: 100')}\r\n{`);
    tooLarge.write(`${head('POST', '/nothing', type, 'content-length: 100000000')}\r\n{`);
    for (const client of [typeOnly, refused, tooLarge]) assert.ok(await client.answer());
    const startedAt = performance.now();
    await gateway.stop();
    // What holds it up is cut after 24 seconds.
    assert.ok(performance.now() - startedAt < 15_000);
  });
});
