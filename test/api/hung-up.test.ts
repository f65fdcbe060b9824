import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { useGateway } from '../support/gateway.ts';
import { samplesOf } from '../support/metrics-lint.ts';

describe('a request whose caller has hung up', () => {
  const gateway = useGateway();

  /** The lines of a request once its last one is there. */
  async function logOf(requestId: string) {
    const ofRequest = () => gateway.logLines.filter(({ facts }) => facts['request_id'] === requestId);
    await eventually(() => assert.ok(ofRequest().some(({ message }) => message === 'request')));
    return ofRequest();
  }

  const samples = async () => samplesOf(await gateway.metrics());

  async function activeRequests(): Promise<number | undefined> {
    return (await samples()).find(({ name }) => name === 'http_server_active_requests')?.value;
  }

  test('is logged, measured and recorded when its work is done', async () => {
    const fault = await gateway.org.arm({ match: { operation: 'query' }, effect: { kind: 'hold' } });
    const { apiKey, apiSecret } = gateway.console;
    const caller = new AbortController();
    const answer = fetch(`${gateway.url}/v1/quotes`, {
      headers: { 'x-api-key': apiKey, 'x-api-secret': apiSecret, 'x-request-id': 'impatient' },
      signal: caller.signal,
    });
    await fault.hit();
    assert.equal(await activeRequests(), 1);
    caller.abort();
    await assert.rejects(answer);
    await fault.release();
    await fault.remove();
    const lines = await logOf('impatient');
    const { facts } = lines.find(({ message }) => message === 'request') ?? {};
    assert.equal(facts?.['hung_up'], true);
    assert.equal(facts['consumer_id'], gateway.console.id);
    assert.equal(facts['result'], 'accepted');
    assert.equal(await activeRequests(), 0);
  });

  test('is no failure of the service where nobody has asked for its address before', async () => {
    for (const path of ['/v1/webhooks/crm/members', '/v1/nowhere', '/v1/quotes']) {
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
      await once(socket, 'connect');
      const id = `unknown${path.replaceAll('/', '-')}`;
      socket.write(
        `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n` +
          `x-request-id: ${id}\r\n\r\n{"type":`,
      );
      if (path.startsWith('/v1/webhooks'))
        await eventually(async () => assert.equal(await activeRequests(), 1));
      socket.resetAndDestroy();
      const lines = await logOf(id);
      assert.deepEqual(
        lines.filter(({ level }) => level === 'error'),
        [],
      );
    }
  });

  for (const [how, hangUp] of [
    ['ends', (socket: Socket) => socket.destroy()],
    ['is reset', (socket: Socket) => socket.resetAndDestroy()],
  ] as const) {
    test(`is so too where the connection ${how} in the middle of a body`, async () => {
      const { apiKey, apiSecret } = gateway.console;
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
      await once(socket, 'connect');
      const id = `half-${how.replace(' ', '-')}`;
      socket.write(
        'POST /api/v1/handoff HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n' +
          `x-request-id: ${id}\r\nx-api-key: ${apiKey}\r\nx-api-secret: ${apiSecret}\r\n\r\n{"type":`,
      );
      await eventually(async () => assert.equal(await activeRequests(), 1));
      hangUp(socket);
      const lines = await logOf(id);
      const { facts } = lines.find(({ message }) => message === 'request') ?? {};
      assert.equal(facts?.['hung_up'], true);
      assert.equal(facts['result'], 'accepted');
      assert.equal(await activeRequests(), 0);
    });
  }

  test('is counted by a status of its own and never as an error of the service', async () => {
    const counted = (await samples()).filter(
      ({ name }) => name === 'http_server_request_duration_seconds_count',
    );
    const statuses = counted.map(({ labels }) => labels['http_response_status_code']);
    assert.deepEqual([...new Set(statuses)], ['499']);
    // Jobs may have warnings of their own.
    const ofRequests = gateway.logLines.filter(({ facts }) => facts['request_id'] !== undefined);
    assert.deepEqual(
      ofRequests.filter(({ level }) => level === 'error' || level === 'warn'),
      [],
    );
  });
});
