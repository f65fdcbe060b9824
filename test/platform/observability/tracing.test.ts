import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createInstallation, type GatewayProcess, type Installation } from '../../support/gateway-process.ts';
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/otlp-receiver.ts';
import { type OwnOrg, startOwnOrg } from '../../support/own-org.ts';
import { freePort } from '../../support/ports.ts';
import { type RecordingProxy, startRecordingProxy } from '../../support/recording-proxy.ts';

const parentId = '00f067aa0ba902b7';

describe('traces', () => {
  let ownOrg: OwnOrg;
  let crm: RecordingProxy;
  let collector: OtlpReceiver;
  let installation: Installation;
  let gateway: GatewayProcess;

  before(async () => {
    ownOrg = await startOwnOrg();
    crm = await startRecordingProxy(ownOrg.org.url);
    collector = await startOtlpReceiver();
    const addresses = { CRM_LOGIN_URL: crm.url, CRM_AUDIENCE: ownOrg.org.url };
    installation = await createInstallation(addresses, ownOrg);
  });
  after(async () => {
    await installation.remove();
    await Promise.all([ownOrg.close(), crm.close(), collector.close()]);
  });

  async function handOff(traceId: string, flags: string): Promise<{ status: number; secrets: string[] }> {
    const { apiKey, apiSecret } = (await installation.credentials()).console;
    const body = {
      type: 'quote',
      trip_id: randomUUID(),
      member_id: ownOrg.org.memberId,
      result: { name: 'Casa Olivo', source: 'opentable', details: { covers: 4 } },
    };
    const response = await fetch(`${gateway.url}/api/v1/handoff?`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-api-key': apiKey,
        'x-api-secret': apiSecret,
        'idempotency-key': randomUUID(),
        traceparent: `00-${traceId}-${parentId}-${flags}`,
        tracestate: 'rojo=1',
      },
      body: JSON.stringify(body),
    });
    await response.text();
    return {
      status: response.status,
      secrets: [apiKey, apiSecret, body.trip_id, body.member_id, body.result.name],
    };
  }

  async function stop(): Promise<void> {
    gateway.signal('SIGTERM');
    assert.deepEqual(await gateway.ended, { code: 0, signal: null });
  }

  const newTraceId = () => randomUUID().replaceAll('-', '');
  const spansOf = (traceId: string) => collector.spans().filter((span) => span.traceId === traceId);
  const callsOf = (traceId: string) =>
    crm.seen.filter(({ headers }) => String(headers['traceparent']).includes(traceId));
  const named = (spans: ReceivedSpan[], name: string) => {
    const span = spans.find((one) => one.name === name);
    assert.ok(span, `${name} is among ${spans.map((one) => one.name).join(', ')}`);
    return span;
  };
  const logOf = (traceId: string) => {
    const line = gateway.output.find((text) => text.includes(traceId) && text.includes('"msg":"request"'));
    return JSON.parse(line ?? '{}') as Record<string, unknown>;
  };

  test('go on to the CRM and into the log, also where nobody records them', async () => {
    gateway = await installation.start();
    const traceId = newTraceId();
    assert.equal((await handOff(traceId, '01')).status, 201);
    const stranger = await fetch(`${gateway.url}/v1/quotes`, { headers: { traceparent: 'nonsense' } });
    assert.equal(stranger.status, 401);
    await stop();

    const [call, ...more] = callsOf(traceId);
    assert.deepEqual(more, []);
    assert.equal(call?.headers['tracestate'], 'rojo=1');
    const { trace_id, span_id } = logOf(traceId);
    assert.equal(trace_id, traceId);
    assert.notEqual(span_id, parentId);
    assert.equal(
      call?.headers['traceparent'],
      `00-${traceId}-${String(span_id)}-01`,
      'the log has what the CRM gets',
    );
    const refused = gateway.output.find((line) => line.includes('"status":401')) ?? '{}';
    assert.match(String((JSON.parse(refused) as Record<string, unknown>)['trace_id']), /^[\da-f]{32}$/);
    assert.deepEqual(collector.requests, []);
  });

  test('are sent over OTLP when the standard variables ask for it, the last ones when the service stops', async () => {
    gateway = await installation.start({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=from-the-variable',
      OTEL_SERVICE_NAME: 'gateway-under-test',
      OTEL_RESOURCE_ATTRIBUTES: 'service.namespace=trips',
    });
    const [good, unsampled, failing] = [newTraceId(), newTraceId(), newTraceId()];
    const { status, secrets } = await handOff(good, '01');
    assert.equal(status, 201);
    assert.equal((await handOff(unsampled, '00')).status, 201);
    const fault = await ownOrg.org.arm({ match: { operation: 'create' }, effect: { kind: 'reset' } });
    assert.ok((await handOff(failing, '01')).status >= 500);
    await fault.remove();
    assert.equal((await fetch(`${gateway.url}/nowhere/${randomUUID()}`)).status, 404);
    await stop();

    const [request] = collector.requests;
    assert.equal(request?.path, '/v1/traces');
    assert.equal(request?.headers['x-collector-key'], 'from-the-variable');

    const spans = spansOf(good);
    const server = named(spans, 'POST /api/v1/handoff');
    assert.equal(server.parentSpanId, parentId);
    assert.equal(server.traceState, 'rojo=1');
    assert.equal(server.kind, 2);
    assert.equal(server.status.code ?? 0, 0);
    assert.equal(server.resource['service.name'], 'gateway-under-test');
    assert.equal(server.resource['service.namespace'], 'trips');
    assert.equal(server.resource['deployment.environment.name'], 'dev');
    const {
      'handoff.request_id': requestId,
      'handoff.consumer_id': consumerId,
      ...others
    } = server.attributes;
    assert.deepEqual(others, {
      'http.request.method': 'POST',
      'http.route': '/api/v1/handoff',
      'http.response.status_code': 201,
      'url.scheme': 'http',
    });
    const line = logOf(good);
    assert.deepEqual(
      [line['span_id'], line['request_id'], line['consumer_id']],
      [server.spanId, requestId, consumerId],
    );

    const create = named(spans, 'crm create');
    assert.equal(create.parentSpanId, server.spanId);
    assert.equal(create.kind, 3);
    assert.equal(create.attributes['server.address'], '127.0.0.1');
    assert.equal(create.attributes['http.response.status_code'], 201);
    const [call] = callsOf(good);
    assert.equal(call?.headers['traceparent'], `00-${good}-${create.spanId}-01`);
    for (const name of ['idempotency claim', 'idempotency complete']) {
      assert.equal(named(spans, name).parentSpanId, server.spanId);
    }

    assert.ok(spansOf(unsampled).length > 0, 'callers do not decide what is kept');
    const failed = named(spansOf(failing), 'POST /api/v1/handoff');
    assert.equal(failed.status.code, 2);
    assert.equal(failed.attributes['error.type'], String(failed.attributes['http.response.status_code']));
    assert.equal(named(spansOf(failing), 'crm create').attributes['error.type'], 'lost');
    const lost = collector.spans().find(({ name }) => name === 'GET');
    assert.equal(lost?.attributes['http.response.status_code'], 404);
    assert.equal(lost?.parentSpanId, undefined);

    const all = collector.requests.map(({ body }) => body.toString('utf8')).join();
    const tokens = crm.seen.flatMap(({ headers }) => headers.authorization?.split(' ')[1] ?? []);
    assert.ok(tokens.length > 0);
    for (const secret of [...secrets, ...tokens, 'SELECT', 'q=']) assert.ok(!all.includes(secret), secret);
  });

  test('are sent as protobuf unless JSON is asked for, to an address of their own', async () => {
    collector.requests.length = 0;
    gateway = await installation.start({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/traces/here`,
    });
    const traceId = newTraceId();
    assert.equal((await handOff(traceId, '01')).status, 201);
    await stop();
    const [request] = collector.requests;
    assert.equal(request?.path, '/traces/here');
    assert.equal(request?.headers['content-type'], 'application/x-protobuf');
    assert.ok(request?.body.includes(Buffer.from(traceId, 'hex')));
    assert.ok(request?.body.includes('POST /api/v1/handoff'));
  });

  test('are kept as the sampler says; the parent-based ones believe the caller', async () => {
    const variables = {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
    };
    gateway = await installation.start(variables);
    const [wanted, unwanted] = [newTraceId(), newTraceId()];
    assert.equal((await handOff(wanted, '01')).status, 201);
    assert.equal((await handOff(unwanted, '00')).status, 201);
    await stop();
    assert.ok(spansOf(wanted).length > 0);
    assert.deepEqual(spansOf(unwanted), []);
    assert.match(String(callsOf(unwanted)[0]?.headers['traceparent']), /-00$/);
  });

  test('that no collector takes are logged and delay nothing', async () => {
    const port = await freePort();
    gateway = await installation.start({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
    assert.equal((await handOff(newTraceId(), '01')).status, 201);
    await stop();
    assert.ok(gateway.output.some((line) => /couldn't export (the last )?traces/.test(line)));
  });

  test('stay off, with a word in the log, where the variables ask for what the service cannot do', async () => {
    collector.requests.length = 0;
    gateway = await installation.start({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    });
    assert.equal((await handOff(newTraceId(), '01')).status, 201);
    await stop();
    const line = gateway.output.find((text) => text.includes("traces aren't exported"));
    assert.match(
      line ?? '',
      /OTEL_EXPORTER_OTLP_PROTOCOL is \\"grpc\\"; set it to http\/protobuf or http\/json/,
    );
    assert.deepEqual(collector.requests, []);
  });
});
