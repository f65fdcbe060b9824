import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';
import { callTool, modernRequest, sendMcp, type ToolResult } from '../../support/mcp.ts';

describe('what an agent asks for', () => {
  const gateway = useGateway();

  const call = (tool: string, given: object, as: Credentials = gateway.console) =>
    callTool(gateway.url, as, tool, given);
  const offer = (change: object = {}) => offerFor(gateway.org.memberId, change);
  const idOf = ({ structuredContent }: ToolResult) => String(structuredContent['external_id']);
  const quotesOf = (trip: string) => gateway.org.records('Quote__c', { Trip_Id__c: trip });

  test('is done once for each intent, in whatever order its arguments come', async () => {
    const { type, trip_id, member_id, result } = offer();
    const first = await call('hand_off', { type, trip_id, member_id, result, intent: 'quote for Ana' });
    assert.equal(first.isError, false, first.content[0]?.text);
    assert.equal(first.structuredContent['replayed'], undefined);
    const { name, source, details } = result;
    const again = await call('hand_off', {
      ...{ intent: 'quote for Ana', result: { details, source, name } },
      ...{ member_id, trip_id, type },
    });
    assert.deepEqual(again.structuredContent, { ...first.structuredContent, replayed: true });
    const other = await call('hand_off', { type, trip_id, member_id, result, intent: 'another quote' });
    assert.notEqual(idOf(other), idOf(first));
    assert.equal((await quotesOf(trip_id)).length, 2);
  });

  test('is refused under an intent that was named with other arguments', async () => {
    const intent = randomUUID();
    const given = offer({ intent });
    await call('hand_off', given);
    for (const change of [{ trip_id: randomUUID() }, { actor: 'eva@example.com' }]) {
      const { isError, structuredContent } = await call('hand_off', { ...given, ...change });
      assert.equal(isError, true);
      assert.equal(structuredContent['code'], 'idempotency_key_reused');
      assert.deepEqual(structuredContent['errors'], [
        { pointer: '#/intent', message: 'belongs to a call with other arguments' },
      ]);
    }
    // Of another tool, or of another consumer, it is another one.
    const other = await gateway.newConsumer({ resource: 'quotes', actions: ['read', 'write'] });
    const made = await call('hand_off', { ...given, trip_id: randomUUID() }, other);
    const change = { id: idOf(made), name: 'Hotel Marina', intent };
    const changed = await call('update_quote', change, other);
    assert.equal(changed.structuredContent['name'], 'Hotel Marina', changed.content[0]?.text);
  });

  test('counts as the same where the arguments are equal, digit for digit', async () => {
    const trip_id = randomUUID();
    const send = async (details: string) => {
      const request = modernRequest('tools/call', { name: 'hand_off', arguments: offer({ trip_id }) });
      const text = JSON.stringify(request.body).replace('{"net":612.4}', details);
      const response = await sendMcp(gateway.url, gateway.console, text, request.headers);
      return ((await response.json()) as { result: ToolResult }).result.structuredContent;
    };
    const first = await send('{"net":612.40}');
    assert.deepEqual(await send('{ "net" : 612.40 }'), { ...first, replayed: true });
    const given = async (details: string, name = 'José') => {
      const change = { trip_id, result: { name: 'NAME', source: 'a', details: 1 } };
      const request = modernRequest('tools/call', { name: 'hand_off', arguments: offer(change) });
      const text = JSON.stringify(request.body)
        .replace('NAME', name)
        .replace('"details":1', `"details":${details}`);
      const response = await sendMcp(gateway.url, gateway.console, text, request.headers);
      return ((await response.json()) as { result: ToolResult }).result.structuredContent;
    };
    // Whatever the order of the fields of details, however deep, and however a character is written.
    const deep = await given('{"a":{"b":[{"c":{"d":1.0,"e":2}}]}}');
    assert.deepEqual(await given('{"\\u0061":{"b":[{"c":{"e":2,"d":1.0}}]}}', 'Jos\\u00e9'), {
      ...{ ...deep, replayed: true },
    });
    const other = await send('{"net":612.4}');
    assert.notEqual(other['external_id'], first['external_id']);
    const [shown] = await gateway.org.records('Quote__c', { External_Id__c: String(first['external_id']) });
    assert.equal(shown?.['Details__c'], '{"net":612.40}');
  });

  test('may be named by 1 to 200 characters', async () => {
    for (const intent of ['', 'x'.repeat(201), '\ud800', 7, null, {}]) {
      const { isError, structuredContent } = await call('hand_off', offer({ intent }));
      assert.equal(isError, true);
      assert.equal(structuredContent['code'], 'invalid_request');
      assert.deepEqual((structuredContent['errors'] as { pointer: string }[])[0]?.pointer, '#/intent');
    }
    for (const intent of ['x', '😀'.repeat(200)])
      assert.equal((await call('hand_off', offer({ intent }))).isError, false);
  });

  test('is done once for tools whose routes take no key, too', async () => {
    const agent = await gateway.newConsumer({
      resource: 'quotes',
      actions: ['read', 'write'],
      approval: true,
    });
    const { structuredContent } = await call('hand_off', offer(), agent);
    assert.equal(structuredContent['status'], 'awaiting_approval');
    const externalId = String(structuredContent['external_id']);
    const given = { externalId, reason: 'too dear', intent: 'reject it', actor: 'Eva Núñez' };
    const rejected = await call('reject_hand_off', given);
    assert.equal(rejected.structuredContent['status'], 'rejected', rejected.content[0]?.text);
    assert.equal((await call('reject_hand_off', given)).structuredContent['replayed'], true);
    const approved = await call('approve_hand_off', { externalId });
    assert.equal(approved.structuredContent['code'], 'conflict');
    const shown = await call('get_hand_off', { externalId });
    const { decided_by } = shown.structuredContent['approval'] as { decided_by: { actor: string } };
    assert.equal(decided_by.actor, 'Eva Núñez');
  });

  test('reserves a table once and cancels it once, with a name or without', async () => {
    for (const named of [true, false]) {
      const day = new Date(Date.now() + 7 * 86_400_000).toISOString().slice(0, 10);
      const table = {
        ...{ merchant_id: 'casa-olivo-7', service_id: 'table', party_size: 4 },
        start_at: `${day}T${named ? 19 : 20}:00:00Z`,
      };
      const guest = {
        given_name: 'Amara',
        family_name: 'Okafor',
        email: 'a@example.com',
        phone: '+12025550143',
      };
      const reservation = {
        ...{ trip_id: randomUUID(), member_id: gateway.org.memberId, name: 'Dinner' },
        ...{ dining: { ...table, guest }, ...(named && { intent: 'dinner' }) },
      };
      const free = await call('check_table', table);
      assert.equal(free.structuredContent['available'], true, free.content[0]?.text);
      const both = await Promise.all([
        call('reserve_table', reservation),
        call('reserve_table', reservation),
      ]);
      const made = both.find(({ isError }) => !isError) as ToolResult;
      const again = await call('reserve_table', reservation);
      assert.equal(again.structuredContent['replayed'], true);
      assert.equal(again.structuredContent['id'], made.structuredContent['id']);
      const bookings = await gateway.org.records('Booking__c', { Trip_Id__c: reservation.trip_id });
      assert.equal(bookings.length, 1);
      const cancellation = { id: made.structuredContent['id'], ...(named && { intent: 'no dinner' }) };
      assert.deepEqual((await call('cancel_reservation', cancellation)).structuredContent, { done: true });
      assert.deepEqual((await call('cancel_reservation', cancellation)).structuredContent, {
        ...{ done: true, replayed: true },
      });
      const { structuredContent } = await call('get_reservation', { id: cancellation.id });
      assert.equal(structuredContent['status'], 'cancelled');
    }
  });

  test('may be tried again where it was refused, unless it has a name', async () => {
    const start_at = `${new Date(Date.now() + 8 * 86_400_000).toISOString().slice(0, 10)}T19:00:00Z`;
    const guest = { given_name: 'A', family_name: 'B', email: 'a@example.com', phone: '+34952555010' };
    const newReservation = (more: object = {}) => ({
      ...{ trip_id: randomUUID(), member_id: gateway.org.memberId, name: 'Dinner', ...more },
      dining: { merchant_id: 'casa-olivo-7', service_id: 'table', party_size: 4, start_at, guest },
    });
    const first = await call('reserve_table', newReservation());
    const unnamed = newReservation();
    const named = newReservation({ intent: 'the same table' });
    const answers = [];
    for (const given of [unnamed, named, unnamed, named]) {
      const { structuredContent } = await call('reserve_table', given);
      answers.push([structuredContent['code'], structuredContent['replayed']]);
    }
    const [refused, again] = [
      ['partner_rejected', undefined],
      ['partner_rejected', true],
    ];
    assert.deepEqual(answers, [refused, refused, refused, again]);
    await call('cancel_reservation', { id: first.structuredContent['id'] });
    assert.equal((await call('reserve_table', named)).structuredContent['code'], 'partner_rejected');
    const made = await call('reserve_table', unnamed);
    assert.equal(made.structuredContent['status'], 'confirmed', made.content[0]?.text);
    assert.equal((await call('reserve_table', unnamed)).structuredContent['replayed'], true);
  });

  test('has details as text, cut where they are long, to be read on', async () => {
    const note = '0123456789'.repeat(1500);
    const made = await call(
      'hand_off',
      offer({ result: { name: 'a', source: 'b', details: { note, net: 1 } } }),
    );
    const id = idOf(made);
    let text = '';
    let length = 1;
    while (text.length < length) {
      const { structuredContent } = await call('get_quote', { id, details_from: text.length });
      text += String(structuredContent['details']);
      length = Number(structuredContent['details_length'] ?? text.length);
    }
    assert.deepEqual(JSON.parse(text), { note, net: 1 });
    const { structuredContent: page } = await call('list_quotes', { limit: 50 });
    const listed = (page['data'] as Record<string, unknown>[]).find((quote) => quote['id'] === id);
    assert.equal(String(listed?.['details']).length, 200);
    assert.equal(listed?.['details_length'], length);
  });

  test('goes on where its caller hangs up, who finds it done', async () => {
    const given = offer({ intent: 'a caller that hangs up' });
    const held = await gateway.org.arm({
      match: { method: 'POST', recordKey: given.trip_id },
      effect: { kind: 'hold' },
    });
    const { body, headers } = modernRequest('tools/call', { name: 'hand_off', arguments: given });
    const hangUp = new AbortController();
    const { apiKey, apiSecret } = gateway.console;
    const lost = fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        'x-api-key': apiKey,
        'x-api-secret': apiSecret,
      },
      body: JSON.stringify(body),
      signal: hangUp.signal,
    });
    await held.hit();
    hangUp.abort();
    await assert.rejects(lost);
    await held.remove();
    const again = await eventually(async () => {
      const answer = await call('hand_off', given);
      assert.notEqual(answer.structuredContent['code'], 'idempotency_in_progress');
      return answer;
    });
    assert.equal(again.structuredContent['replayed'], true, again.content[0]?.text);
    assert.equal((await quotesOf(given.trip_id)).length, 1);
  });

  test('waits with 31 others of its consumer at most', async () => {
    const other = await gateway.newConsumer({ resource: 'quotes', actions: ['read'] });
    const permissions = [{ resource: 'quotes', actions: ['read', 'write'] }];
    const body = { name: 'hurried', permissions, rateLimitPerMinute: 36 };
    const made = await gateway.request('/v1/admin/consumers', { as: gateway.admin, body });
    const hurried = (await made.json()) as Credentials;
    const held = await gateway.org.arm({
      match: { object: 'Quote__c', method: 'POST' },
      effect: { kind: 'hold' },
    });
    const refused: ToolResult[] = [];
    const allRefused = Promise.withResolvers<void>();
    const calls = Array.from({ length: 40 }, async () => {
      const result = await call('hand_off', offer(), hurried);
      if (result.structuredContent['code'] === 'rate_limited') refused.push(result);
      if (refused.length === 8) allRefused.resolve();
      return result;
    });
    await allRefused.promise;
    // The last four are beyond both limits: that is a result, too.
    const details = refused.map(({ structuredContent }) => String(structuredContent['detail']));
    assert.deepEqual(
      details
        .map((detail) => (detail.startsWith('32 calls') ? '32 calls' : /^36 requests/.exec(detail)?.[0]))
        .sort(),
      [...Array<string>(4).fill('32 calls'), ...Array<string>(4).fill('36 requests')],
    );
    // Another consumer has calls of its own. One to the CRM could share a call with those that are held.
    assert.equal((await call('list_hand_offs', {}, other)).isError, false);
    await held.hit();
    // What is held goes on, and nothing more is.
    await gateway.org.disarm();
    await Promise.all(calls);
    assert.equal(refused.length, 8);
    // Each is an attempt at its route, refused or not.
    const results = async () => {
      const path = `/v1/admin/auth-attempts?limit=100&consumer_id=${hurried.id}`;
      const { data } = (await (await gateway.request(path, { as: gateway.admin })).json()) as {
        data: { endpoint: string; status: number }[];
      };
      return data.map(({ endpoint, status }) => `${endpoint} ${status}`).sort();
    };
    await eventually(async () => assert.ok((await results()).length >= 40));
    assert.deepEqual(await results(), [
      ...Array<string>(32).fill('POST /api/v1/handoff 201'),
      ...Array<string>(8).fill('POST /api/v1/handoff 429'),
    ]);
    assert.equal((await call('list_quotes', {})).isError, false);
  });

  test('has a person, by the argument or by the header', async () => {
    const person = async (given: object, headers: Record<string, string>) => {
      const made = await callTool(gateway.url, gateway.console, 'hand_off', offer(given), headers);
      const { structuredContent } = await call('get_quote', { id: idOf(made) });
      return (structuredContent['created_by'] as { actor: string }).actor;
    };
    assert.equal(await person({}, { 'x-actor': 'eva@example.com' }), 'eva@example.com');
    assert.equal(await person({ actor: 'José 100%' }, {}), 'José 100%');
    // The host has met the person, the model has not.
    for (const actor of ['José 100%', '\u0007', 7])
      assert.equal(await person({ actor }, { 'x-actor': 'eva@example.com' }), 'eva@example.com');
    for (const actor of ['\u0007', '', null, 'a\r\nx-api-key: b', 'x'.repeat(256)]) {
      const { structuredContent } = await call('hand_off', offer({ actor }));
      assert.equal(structuredContent['code'], 'invalid_request');
      // Who called the tool knows of no header.
      assert.match(String(structuredContent['detail']), /^The argument actor must /);
      assert.equal((structuredContent['errors'] as { pointer: string }[])[0]?.pointer, '#/actor');
    }
  });
});
