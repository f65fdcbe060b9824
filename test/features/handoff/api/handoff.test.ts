import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { PermissionAction, PermissionResource } from '../../../../src/identity/consumers/consumer.ts';
import { detailsIn } from '../../../support/details.ts';
import { useGateway } from '../../../support/gateway.ts';
import { assertProblem } from '../../../support/problems.ts';

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe('POST /api/v1/handoff', () => {
  const gateway = useGateway();

  const offer = (change: object = {}, result: object = {}) => ({
    type: 'quote',
    trip_id: randomUUID(),
    member_id: gateway.org.memberId,
    result: { name: 'Hotel Miramar', source: 'hotelbeds', details: { net: '612.40' }, ...result },
    ...change,
  });
  const handOff = (body: object | string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
    gateway.request('/api/v1/handoff', { body, headers });

  for (const type of ['quote', 'booking']) {
    test(`makes a ${type} and confirms it`, async () => {
      const body = offer({ type });
      const response = await handOff(body);
      const confirmed = (await response.json()) as Record<string, string>;
      assert.equal(response.status, 201);
      assert.deepEqual(Object.keys(confirmed), ['id', 'type', 'status', 'external_id']);
      assert.equal(confirmed.type, type);
      assert.equal(confirmed.status, 'created');
      assert.match(String(confirmed.external_id), uuid);
      assert.equal(response.headers.get('location'), `/v1/${type}s/${confirmed.external_id}`);

      const object = type === 'quote' ? 'Quote__c' : 'Booking__c';
      const [record] = await gateway.org.records(object, { External_Id__c: String(confirmed.external_id) });
      const [member] = await gateway.org.records('Contact', { External_Id__c: gateway.org.memberId });
      assert.partialDeepStrictEqual(record, {
        Id: confirmed.id,
        Trip_Id__c: body.trip_id,
        Member__c: member?.Id,
        Name__c: 'Hotel Miramar',
        Source__c: 'hotelbeds',
        Status__c: 'created',
        Details__c: '{"net":"612.40"}',
      });
    });
  }

  async function storedDetails(details: string): Promise<unknown> {
    const body = JSON.stringify(offer({}, { details: 0 })).replace('"details":0', `"details": ${details}`);
    const response = await handOff(body);
    const answer = (await response.json()) as { external_id: string };
    assert.equal(response.status, 201, JSON.stringify(answer));
    const [record] = await gateway.org.records('Quote__c', { External_Id__c: answer.external_id });
    return detailsIn(record ?? {});
  }

  test('details reach the CRM digit for digit', async () => {
    const text =
      '{"z":123456789012345678901234567890,"a":1e400,"10":0.10000000000000000001,"2":-0.0,"__proto__":{"polluted":true},' +
      '"constructor":null,"emoji":"👩‍🚀","esc":"\\u00e9\\ud83d\\ude00\\/","empty":{},"list":[],"nul":"\\u0000"}';
    assert.equal(await storedDetails(text), text);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });

  test('details lose insignificant white space and nothing else', async () => {
    assert.equal(await storedDetails('{\n  "a b" : [ 1 ,\t2 ] }'), '{"a b":[1,2]}');
  });

  test('details may nest 100 levels deep', async () => {
    const nested = (levels: number) => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`;
    for (const levels of [60, 100]) assert.equal(await storedDetails(nested(levels)), nested(levels));
    const body = JSON.stringify(offer({}, { details: 0 })).replace('"details":0', `"details":${nested(101)}`);
    await assertProblem(await handOff(body), 400, 'invalid_request', '#/result/details');
  });

  test('details of any size go on in further fields, without loss at their ends', async () => {
    const filled = (length: number, character = '😀') =>
      `{"a":"${character.repeat(Math.floor((length - 8) / character.length))}"}`;
    const short = filled(131_072);
    const spaced = `{"a":"${'x'.repeat(131_000)}${' '.repeat(200)}${'y'.repeat(131_000)}"}`;
    for (const text of [short, filled(131_074), spaced, filled(1_048_000, 'x'), filled(300_000, '\\"')])
      assert.equal(await storedDetails(text), text);
  });

  test('details that no cut fits are refused', async () => {
    const details = { a: ' '.repeat(131_072) };
    const problem = await assertProblem(
      await handOff(offer({}, { details })),
      422,
      'details_too_large',
      '#/result/details',
    );
    assert.match(problem.detail, /131080.*131072/);
  });

  test('ids come in either case and reach the CRM in lower case', async () => {
    const trip = randomUUID();
    const body = offer({ trip_id: trip.toUpperCase(), member_id: gateway.org.memberId.toUpperCase() });
    const { external_id } = (await (await handOff(body)).json()) as { external_id: string };
    const [record] = await gateway.org.records('Quote__c', { External_Id__c: external_id });
    assert.equal(record?.Trip_Id__c, trip);
  });

  test('refuses what is not a valid request, naming every fault', async () => {
    const bad = offer(
      { trip_id: 'trip', memberId: 1, __proto__: null },
      { name: ' ', source: '', details: [], extra: true },
    );
    await assertProblem(
      await handOff(bad),
      400,
      'invalid_request',
      ...[
        '#/trip_id',
        '#/memberId',
        '#/result/name',
        '#/result/source',
        '#/result/details',
        '#/result/extra',
      ],
    );
    await assertProblem(
      await handOff({ type: 'quote' }),
      400,
      'invalid_request',
      '#/trip_id',
      '#/member_id',
      '#/result',
    );
    await assertProblem(await handOff(offer({ type: 'invoice' })), 400, 'invalid_request', '#/type');
    await assertProblem(await handOff('[]'), 400, 'invalid_request', '#/type');
    const long = offer({}, { name: 'x'.repeat(256), source: 'a\0b' });
    await assertProblem(await handOff(long), 400, 'invalid_request', '#/result/name', '#/result/source');
    const unknownKey = JSON.stringify(offer()).replace('{', '{"__proto__":1,');
    await assertProblem(await handOff(unknownKey), 400, 'invalid_request', '#/__proto__');
    const query = await gateway.request('/api/v1/handoff?dry_run=1', { body: offer() });
    await assertProblem(query, 400, 'invalid_request', 'dry_run');
  });

  test('distinguishes what is no JSON, too large, and of another type', async () => {
    await assertProblem(await handOff('{"type":'), 400, 'malformed_json');
    await assertProblem(await handOff(''), 400, 'malformed_json');
    await assertProblem(await handOff(new Uint8Array([0x7b, 0xff, 0x7d])), 400, 'malformed_json');
    await assertProblem(await handOff(`"${'x'.repeat(1_048_576)}"`), 413, 'payload_too_large');
    const xml = await handOff('<offer/>', { 'content-type': 'application/xml' });
    await assertProblem(xml, 415, 'unsupported_media_type');
  });

  test('names a member that the CRM does not know', async () => {
    const problem = await assertProblem(
      await handOff(offer({ member_id: randomUUID() })),
      422,
      'member_not_found',
      '#/member_id',
    );
    assert.doesNotMatch(JSON.stringify(problem), /__c|__r|Contact/);
  });

  describe('permissions', () => {
    const consumerWith = (resource: PermissionResource, actions: PermissionAction[]) =>
      gateway.newConsumer({ resource, actions });
    const as = (who: { apiKey: string; apiSecret: string } | null, body: object | string) =>
      gateway.request('/api/v1/handoff', { body, as: who });

    test('are checked by the type that is handed off', async () => {
      const quotes = await consumerWith('quotes', ['write']);
      assert.equal((await as(quotes, offer())).status, 201);
      const problem = await assertProblem(
        await as(quotes, offer({ type: 'booking' })),
        403,
        'permission_denied',
      );
      assert.deepEqual(problem.required, { resource: 'bookings', action: 'write' });
    });

    test('come before the rest of the body, but after its type', async () => {
      const quotes = await consumerWith('quotes', ['write']);
      await assertProblem(await as(quotes, { type: 'booking', nonsense: 1 }), 403, 'permission_denied');
      await assertProblem(await as(quotes, { type: 'x' }), 400, 'invalid_request', '#/type');
      await assertProblem(await as(quotes, '{'), 400, 'malformed_json');
    });

    test('without any of them the body is not even looked at', async () => {
      const reader = await consumerWith('quotes', ['read']);
      await assertProblem(await as(reader, '{'), 403, 'permission_denied');
      await assertProblem(await as(await consumerWith('members', ['write']), '{'), 403, 'permission_denied');
    });

    test('credentials that are missing or wrong get one answer for every reason', async () => {
      const { apiKey, apiSecret } = gateway.console;
      const otherEnd = (text: string) => `${text.slice(0, -1)}${text.endsWith('x') ? 'y' : 'x'}`;
      const wrong = [
        null,
        { apiKey, apiSecret: otherEnd(apiSecret) },
        { apiKey: otherEnd(apiKey), apiSecret },
        { apiKey, apiSecret: gateway.admin.apiSecret },
        { apiKey: '', apiSecret: '' },
        { apiKey: 'x'.repeat(5000), apiSecret: 'y'.repeat(5000) },
      ];
      const answers = await Promise.all(
        wrong.map(async (who) => {
          const response = await as(who, '{');
          assert.ok(response.headers.get('www-authenticate'));
          const { request_id: _, ...problem } = await assertProblem(response, 401, 'invalid_credentials');
          return JSON.stringify(problem);
        }),
      );
      assert.equal(new Set(answers).size, 1);
    });
  });

  describe('under an Idempotency-Key', () => {
    test('a repeat gets the same answer and makes no second record', async () => {
      const key = randomUUID();
      const body = offer();
      const first = await handOff(body, { 'idempotency-key': key });
      const again = await handOff(body, { 'idempotency-key': `"${key.toUpperCase()}"` });
      assert.equal(first.status, 201);
      assert.equal(first.headers.get('idempotent-replayed'), null);
      assert.equal(again.status, 201);
      assert.equal(again.headers.get('idempotent-replayed'), 'true');
      assert.equal(await again.text(), await first.text());
      for (const name of ['location', 'content-type']) {
        assert.equal(again.headers.get(name), first.headers.get(name));
      }
      assert.equal((await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id })).length, 1);
    });

    test('another request under the same key is refused', async () => {
      const key = randomUUID();
      await handOff(offer(), { 'idempotency-key': key });
      const other = await handOff(offer(), { 'idempotency-key': key });
      await assertProblem(other, 422, 'idempotency_key_reused', 'Idempotency-Key');
    });

    test('a refusal that is final is replayed too', async () => {
      const headers = { 'idempotency-key': randomUUID() };
      const body = offer({ member_id: randomUUID() });
      const first = await handOff(body, headers);
      const again = await handOff(body, headers);
      assert.equal(first.status, 422);
      assert.equal(again.headers.get('idempotent-replayed'), 'true');
      assert.equal(await again.text(), await first.text());
    });

    test('what is refused before the claim leaves the key free', async () => {
      const headers = { 'idempotency-key': randomUUID() };
      const deep = JSON.parse(`${'{"a":'.repeat(101)}1${'}'.repeat(101)}`) as object;
      await assertProblem(
        await handOff(offer({}, { details: deep }), headers),
        400,
        'invalid_request',
        '#/result/details',
      );
      assert.equal((await handOff(offer(), headers)).status, 201);
    });

    test('a key that is no UUID is refused', async () => {
      const response = await handOff(offer(), { 'idempotency-key': 'order-1' });
      await assertProblem(response, 400, 'idempotency_key_invalid', 'Idempotency-Key');
    });

    test('a hundred parallel requests make one record', async () => {
      const headers = { 'idempotency-key': randomUUID() };
      const body = offer();
      const answers = await Promise.all(Array.from({ length: 100 }, () => handOff(body, headers)));
      const statuses = answers.map(({ status }) => status);
      assert.deepEqual(
        [...new Set(statuses)].sort().filter((status) => status !== 409),
        [201],
      );
      const firsts = answers.filter((a) => a.status === 201 && !a.headers.has('idempotent-replayed'));
      assert.equal(firsts.length, 1);
      for (const waiting of answers.filter(({ status }) => status === 409)) {
        assert.equal(waiting.headers.get('retry-after'), '1');
      }
      assert.equal((await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id })).length, 1);
    });
  });

  describe('when the CRM fails', () => {
    test('an answer that is lost after the commit still ends in one record', async () => {
      const fault = await gateway.org.arm({
        match: { object: 'Quote__c', method: 'POST' },
        effect: { kind: 'loseAnswer' },
        times: 1,
      });
      const body = offer();
      const response = await handOff(body);
      await fault.hit();
      assert.equal(response.status, 201);
      const { id } = (await response.json()) as { id: string };
      const records = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
      assert.deepEqual(
        records.map((record) => record.Id),
        [id],
      );
    });

    test('an outcome that stays unknown is reported, with the record to look for', async () => {
      const fault = await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'loseAnswer' } });
      const body = offer();
      const response = await handOff(body);
      await fault.remove();
      assert.ok(response.status >= 502, String(response.status));
      const problem = (await response.json()) as { detail: string; external_id: string };
      assert.match(problem.detail, /look the record up by external_id/);
      const [record] = await gateway.org.records('Quote__c', { Trip_Id__c: body.trip_id });
      assert.equal(record?.External_Id__c, problem.external_id);
    });

    test('a session that the CRM ended is replaced without anybody noticing', async () => {
      await handOff(offer());
      await gateway.org.revokeTokens();
      assert.equal((await handOff(offer())).status, 201);
    });

    test('a CRM that is down is reported as such, and the same key succeeds later', async () => {
      const fault = await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'down' } });
      const headers = { 'idempotency-key': randomUUID() };
      const body = offer();
      const response = await handOff(body, headers);
      await assertProblem(response, 503, 'crm_unavailable');
      await fault.remove();
      const again = await handOff(body, headers);
      assert.equal(again.status, 201);
      assert.equal(again.headers.get('idempotent-replayed'), null);
    });

    test('a daily quota that is used up is reported, with a time to come back', async () => {
      const fault = await gateway.org.arm({ match: { object: 'Quote__c' }, effect: { kind: 'dailyLimit' } });
      const response = await handOff(offer());
      await assertProblem(response, 503, 'crm_quota_exhausted');
      assert.ok(Number(response.headers.get('retry-after')) > 0);
      await fault.remove();
    });
  });

  test('nothing in the log is a secret, a token, a key or a JWT', async () => {
    const text = JSON.stringify(gateway.logLines);
    const { console, admin } = gateway;
    for (const secret of [console.apiSecret, admin.apiSecret, console.apiKey, admin.apiKey]) {
      assert.ok(!text.includes(secret));
    }
    assert.doesNotMatch(text, /eyJ[A-Za-z0-9_-]+\.|00D[A-Za-z0-9]{12,15}!|PRIVATE KEY|Bearer /);
  });

  test('every attempt stands in the log with consumer, endpoint, result and time', async () => {
    const attempts = gateway.logLines.filter(({ message }) => message === 'request');
    const results = new Set(attempts.map(({ facts }) => facts.result));
    for (const result of ['accepted', 'missing', 'unknown_key', 'wrong_secret', 'permission_denied']) {
      assert.ok(results.has(result), result);
    }
    for (const { facts } of attempts) {
      assert.equal(facts.endpoint, 'POST /api/v1/handoff');
      assert.ok(Date.parse(String(facts.timestamp)) > 0);
      assert.ok(facts.result === 'accepted' ? facts.consumer_id : true);
    }
  });
});
