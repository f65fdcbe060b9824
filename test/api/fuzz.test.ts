import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { eventually } from '../support/eventually.ts';
import { createInstallation, type GatewayProcess, type Installation } from '../support/gateway-process.ts';
import { samplesOf } from '../support/metrics-lint.ts';
import { type OddRequest, oddRequests, oddStreams } from '../support/odd-requests.ts';
import { listOperations } from '../support/operations.ts';
import { freePort } from '../support/ports.ts';
import { connectRaw, type RawClient } from '../support/raw-client.ts';

/** How many; FUZZ_REQUESTS=100000 FUZZ_STREAMS=2000 takes some minutes. */
const requests = Number(process.env['FUZZ_REQUESTS'] ?? 400);
const streams = Number(process.env['FUZZ_STREAMS'] ?? 60);
/** From so many on, what the first of them have warmed up is no longer what grows. */
const warmUp = 5000;
const atOnce = 8;
const memoryBound = 40 * 1_048_576;
/** Longer than anything should take; what waits for it has been lost. */
const answerWaitMs = 45_000;

describe('no input makes an error of the service, or is left without an answer', () => {
  let installation: Installation;
  let gateway: GatewayProcess;
  const statuses = new Set<number>();
  let odd: fc.Arbitrary<OddRequest>;
  /** They ask at the same time. */
  let clients: RawClient[];

  before(async () => {
    installation = await createInstallation({
      RATE_LIMIT_PER_MINUTE: '0',
      RATE_LIMIT_FAILED_PER_MINUTE: '0',
      RATE_LIMIT_PUBLIC_PER_MINUTE: '0',
      METRICS_PORT: String(await freePort()),
    });
    gateway = await installation.start();
    const { console: shop, admin } = await installation.credentials();
    odd = oddRequests(await listOperations(gateway.url), [shop, admin]);
    clients = await Promise.all(Array.from({ length: atOnce }, () => connectRaw(gateway.url)));
  });
  after(() => installation.remove());

  async function metrics() {
    const samples = samplesOf(await (await fetch(`${gateway.operationsUrl}/metrics`)).text());
    return {
      memory: samples.find(({ name }) => name === 'process_resident_memory_bytes')?.value ?? 0,
      active: samples.find(({ name }) => name === 'http_server_active_requests')?.value,
      errors: samples.filter(({ labels }) => labels['http_response_status_code']?.startsWith('5')),
    };
  }

  async function inTime<T>(promise: Promise<T>): Promise<T> {
    const timer = new AbortController();
    const late = sleep(answerWaitMs, undefined, { signal: timer.signal }).then(() =>
      assert.fail('nothing came'),
    );
    try {
      return await Promise.race([promise, late]);
    } finally {
      timer.abort();
      late.catch(() => {});
    }
  }

  async function ask({ method, bytes }: OddRequest, index: number): Promise<void> {
    const client = clients[index] as RawClient;
    client.socket.write(bytes, 'latin1');
    let answer = await inTime(client.answer(method === 'HEAD'));
    while (answer?.status === 100) answer = await inTime(client.answer(method === 'HEAD'));
    if (answer === undefined || answer.headers['connection'] === 'close') {
      client.socket.destroy();
      clients[index] = await connectRaw(gateway.url);
    }
    assert.ok(answer, 'an answer');
    statuses.add(answer.status);
    assert.ok(answer.status >= 200 && answer.status < 500, `${answer.status} ${String(answer.body)}`);
  }

  async function askAtOnce(some: OddRequest[]): Promise<void> {
    await Promise.all(some.map(ask));
  }

  async function send(bytes: string): Promise<void> {
    const { socket, closed } = await connectRaw(gateway.url);
    const received: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => received.push(chunk));
    const middle = bytes.length >> 1;
    socket.write(bytes.slice(0, middle), 'latin1');
    await new Promise(setImmediate);
    socket.end(bytes.slice(middle), 'latin1');
    await inTime(closed);
    assert.doesNotMatch(Buffer.concat(received).toString('latin1'), /^HTTP\/1\.1 5/m);
  }

  const run = <T>(arbitrary: fc.Arbitrary<T>, numRuns: number, work: (one: T) => Promise<void>) =>
    fc.assert(fc.asyncProperty(arbitrary, work), { numRuns, endOnFailure: true });

  test('as odd requests, and as streams of bytes', { timeout: 3_600_000 }, async (context) => {
    const several = fc.array(odd, { minLength: atOnce, maxLength: atOnce });
    await run(several, Math.min(warmUp, requests) / atOnce, askAtOnce);
    const earlier = await metrics();
    if (requests > warmUp) await run(several, (requests - warmUp) / atOnce, askAtOnce);
    await run(oddStreams(odd), streams, send);
    await eventually(async () => assert.equal((await metrics()).active, 0), { everyMs: 50 });
    const { memory, errors } = await metrics();
    assert.deepEqual(errors, []);
    const isError = (line: string) => line.includes('"level":"error"');
    assert.deepEqual(gateway.output.filter(isError), []);
    // Else they would be odd in one way only.
    for (const status of [200, 204, 400, 401, 404, 405]) assert.ok(statuses.has(status), String(status));
    context.diagnostic(`statuses: ${[...statuses].join(', ')}`);
    context.diagnostic(`memory: ${earlier.memory / 1_048_576} MiB, then ${memory / 1_048_576} MiB`);
    if (requests > 2 * warmUp) {
      await eventually(async () => assert.ok((await metrics()).memory <= earlier.memory + memoryBound), {
        everyMs: 1000,
      });
    }
  });
});
