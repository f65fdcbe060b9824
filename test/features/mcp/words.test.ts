import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { slotInDays } from '../../support/dining-partner.ts';
import { type Credentials, useGateway } from '../../support/gateway.ts';
import { offerFor } from '../../support/handoffs.ts';
import { callTool, listTools, modernRequest, sendMcp, type ToolResult } from '../../support/mcp.ts';
import { newReservation } from '../../support/reservations.ts';

const httpWords =
  /\b(?:GET|POST|PATCH|DELETE|HTTP|header|X-Actor|Idempotency-Key|If-Match|If-None-Match|request body|query parameter)\b|\/v1\//;

describe('the words of tools', () => {
  const gateway = useGateway({ CHANGES_POLL_SECONDS: '60' });

  const call = (tool: string, given: object = {}, as: Credentials = gateway.console) =>
    callTool(gateway.url, as, tool, given);
  const offer = (change: object = {}) => offerFor(gateway.org.memberId, change);
  const make = async (...permissions: object[]): Promise<Credentials> => {
    const response = await gateway.request('/v1/admin/consumers', {
      as: gateway.admin,
      body: { name: `words ${randomUUID()}`, permissions },
    });
    assert.equal(response.status, 201, await response.clone().text());
    return (await response.json()) as Credentials;
  };
  /** A consumer whose bookings need approval, as docs/agents.md has it. */
  const makeAgent = () =>
    make(
      { resource: 'members', actions: ['read'] },
      { resource: 'quotes', actions: ['read', 'write'], records: 'own' },
      { resource: 'bookings', actions: ['read', 'write'], records: 'own', approval: true },
    );
  const waiting = async () => {
    const agent = await makeAgent();
    const { structuredContent } = await call('hand_off', offer({ type: 'booking' }), agent);
    assert.equal(structuredContent['status'], 'awaiting_approval');
    return String(structuredContent['external_id']);
  };

  test('name records alike in arguments and results', async () => {
    const external_id = await waiting();
    const { get_hand_off, get_quote } = Object.fromEntries(
      (await listTools(gateway.url, gateway.console)).map((tool) => [tool.name, tool.inputSchema]),
    );
    assert.ok(
      get_hand_off && 'external_id' in get_hand_off.properties && 'externalId' in get_hand_off.properties,
    );
    assert.deepEqual([get_hand_off.required, get_quote?.required], [[], ['id']]);
    for (const given of [
      { external_id },
      { externalId: external_id },
      { external_id, externalId: external_id },
    ]) {
      const { structuredContent } = await call('get_hand_off', given);
      assert.equal(structuredContent['external_id'], external_id, JSON.stringify(given));
    }
    const both = await call('get_hand_off', { external_id, externalId: randomUUID() });
    assert.deepEqual(both.structuredContent['errors'], [
      { pointer: '#/external_id', message: 'must be the same as externalId, or left out' },
    ]);
    const member = await call('get_member', { external_id: gateway.org.memberId });
    assert.equal(member.structuredContent['id'], gateway.org.memberId);
    const quote = await call('hand_off', offer());
    const found = await call('get_quote', { external_id: quote.structuredContent['external_id'] });
    assert.equal(found.isError, false, found.content[0]?.text);
    const rejected = await call('reject_hand_off', { external_id, reason: 'too dear' });
    assert.equal(rejected.structuredContent['status'], 'rejected');
    const again = await call('reject_hand_off', { reason: 'too dear', externalId: external_id });
    assert.equal(again.structuredContent['replayed'], true);
  });

  test('take details as results have them, digit for digit', async () => {
    const details = '{"net":612.40,"big":12345678901234567890,"note":"{\\"details\\":\\"{}\\"}"}';
    const given = offer({ result: { name: 'Hotel', source: 'hotelbeds', details } });
    const made = await call('hand_off', given);
    const id = String(made.structuredContent['external_id']);
    const [record] = await gateway.org.records('Quote__c', { External_Id__c: id });
    assert.equal(record?.['Details__c'], details);
    const asObject = modernRequest('tools/call', {
      name: 'hand_off',
      arguments: { ...given, result: { ...given.result, details: 'HERE' } },
    });
    const text = JSON.stringify(asObject.body).replace('"HERE"', details);
    const response = await sendMcp(gateway.url, gateway.console, text, asObject.headers);
    const { result } = (await response.json()) as { result: ToolResult };
    assert.deepEqual(result.structuredContent, { ...made.structuredContent, replayed: true });
    const read = await call('get_quote', { id });
    assert.equal(read.structuredContent['details'], details);
    const changed = await call('update_quote', {
      id,
      details: read.structuredContent['details'],
      name: 'Again',
    });
    assert.equal(changed.structuredContent['details'], details, changed.content[0]?.text);
    const trip = { trip_id: given.trip_id, member_id: given.member_id };
    const item = { type: 'quote', result: { name: 'A', source: 'b', details: '{"net":1.50}' } };
    const handed = await call('hand_off_trip', { ...trip, items: [item] });
    assert.equal(handed.isError, false, handed.content[0]?.text);
    const [{ external_id }] = handed.structuredContent['items'] as [{ external_id: string }];
    assert.equal((await call('get_quote', { id: external_id })).structuredContent['details'], '{"net":1.50}');
    for (const wrong of ['{"net":1', '[]', '"{}"', 'null', '']) {
      const refused = await call('hand_off', offer({ result: { name: 'A', source: 'b', details: wrong } }));
      assert.equal(refused.structuredContent['code'], 'invalid_request', wrong);
      const [fault] = refused.structuredContent['errors'] as { pointer: string }[];
      assert.equal(fault?.pointer, '#/result/details');
    }
  });

  test('describe every result, problems among them', async () => {
    const external_id = await waiting();
    const quote = await call('hand_off', offer());
    const id = quote.structuredContent['external_id'];
    const trip_id = randomUUID();
    const item = { type: 'quote', result: offer().result };
    const trip = { trip_id, member_id: gateway.org.memberId, items: [item] };
    const table = newReservation(gateway.org.memberId);
    const { structuredContent: reserved } = await call('reserve_table', table);
    const calls: [string, object][] = [
      ['search_members', {}],
      ['get_member', { external_id: gateway.org.memberId }],
      ['list_quotes', {}],
      ['get_quote', { id }],
      ['update_quote', { id, name: 'x' }],
      ['list_bookings', {}],
      ['get_booking', { id: reserved['id'] }],
      ['update_booking', { id: reserved['id'], name: 'x' }],
      ['hand_off', offer()],
      ['hand_off_trip', trip],
      ['check_hand_off', trip],
      ['get_trip', { trip_id }],
      ['list_hand_offs', {}],
      ['get_hand_off', { external_id }],
      ['approve_hand_off', { external_id }],
      ['reject_hand_off', { external_id, reason: 'x' }],
      ['list_restaurants', {}],
      [
        'check_table',
        { merchant_id: 'casa-olivo-7', service_id: 'table', start_at: slotInDays(40), party_size: 2 },
      ],
      ['reserve_table', table],
      ['get_reservation', { id: reserved['id'] }],
      ['cancel_reservation', { id: reserved['id'] }],
      ['list_events', {}],
    ];
    const ajv = new Ajv2020({ strict: false });
    const tools = await listTools(gateway.url, gateway.console);
    assert.deepEqual(tools.map(({ name }) => name).sort(), calls.map(([name]) => name).sort());
    for (const { name, outputSchema } of tools) {
      assert.equal(outputSchema.type, 'object');
      const isValid = ajv.compile(outputSchema);
      const [, given] = calls.find(([tool]) => tool === name) as [string, object];
      for (const one of [given, { nobody: 1 }]) {
        const { structuredContent } = await call(name, one);
        assert.ok(isValid(structuredContent), `${name} ${ajv.errorsText(isValid.errors)}`);
      }
      // Each field of a result is one that the schema has.
      const { isError, structuredContent } = await call(name, given);
      const known = new Set(
        outputSchema.anyOf.flatMap((one) => Object.keys((one as { properties: object }).properties)),
      );
      if (!isError)
        for (const field of Object.keys(structuredContent))
          assert.ok(known.has(field) || ['replayed', 'details_length'].includes(field), `${name} ${field}`);
    }
  });

  test('are of tools and arguments, and name tools that the caller has', async () => {
    const all = (await listTools(gateway.url, gateway.console)).map(({ name }) => name);
    const callers = [
      gateway.console,
      await makeAgent(),
      await make({ resource: 'quotes', actions: ['read'] }),
      await make({ resource: 'bookings', actions: ['read'] }),
      await make({ resource: 'quotes', actions: ['read', 'write'] }),
    ];
    for (const caller of callers) {
      const tools = await listTools(gateway.url, caller);
      const own = new Set(tools.map(({ name }) => name));
      for (const tool of tools) {
        const text = JSON.stringify(tool);
        assert.doesNotMatch(text, httpWords, tool.name);
        assert.ok(tool.description.length > 40, tool.name);
        const named = all.filter((name) => new RegExp(`\\b${name}\\b`).test(text));
        assert.deepEqual(
          named.filter((name) => !own.has(name)),
          [],
          tool.name,
        );
      }
    }
    const reader = callers[3] as Credentials;
    const unknown = { merchant_id: 'nowhere', service_id: 'table', start_at: slotInDays(40), party_size: 2 };
    const { detail } = (await call('check_table', unknown, reader)).structuredContent;
    assert.equal(detail, "There's no restaurant with this merchant_id. list_restaurants lists them all.");
    const held = await call('reserve_table', newReservation(gateway.org.memberId));
    const problems = [
      await call('update_booking', { id: held.structuredContent['id'], status: 'x' }),
      await call('list_quotes', { limit: 'many' }),
      await call('get_quote', { id: 'x' }),
      await call('hand_off', { type: 'quote' }),
      await call('hand_off', offer({ actor: '' })),
      await call('hand_off_trip', { trip_id: 7 }),
      await call('update_booking', { id: held.structuredContent['id'], name: 'x' }, callers[1]),
    ];
    for (const { isError, structuredContent } of problems) {
      assert.ok(isError);
      const { type: _, instance: __, ...shown } = structuredContent;
      assert.doesNotMatch(JSON.stringify(shown), httpWords);
    }
  });

  test('say of a table that needs approval that it needs another consumer', async () => {
    const agent = await makeAgent();
    const { structuredContent } = await call('reserve_table', newReservation(gateway.org.memberId), agent);
    assert.equal(structuredContent['code'], 'approval_required');
    assert.match(String(structuredContent['detail']), /Tables need another consumer/);
    assert.doesNotMatch(String(structuredContent['detail']), /hand the result off/);
    const { structuredContent: change } = await call(
      'update_booking',
      { id: randomUUID(), name: 'x' },
      agent,
    );
    assert.match(String(change['detail']), /hand the result off with hand_off instead/);
  });

  test('mean the same without the intent, where it was named shortly before', async () => {
    const given = offer();
    const first = await call('hand_off', { ...given, intent: 'quote' });
    const forgotten = await call('hand_off', given);
    assert.deepEqual(forgotten.structuredContent, { ...first.structuredContent, replayed: true });
    // A refused use of the name for something else changes nothing.
    const other = offer();
    const reused = await call('hand_off', { ...other, intent: 'quote' });
    assert.equal(reused.structuredContent['code'], 'idempotency_key_reused');
    const made = await call('hand_off', other);
    assert.equal(made.isError, false, made.content[0]?.text);
    assert.notEqual(made.structuredContent['external_id'], first.structuredContent['external_id']);
    // The last of several names counts; another consumer's never does.
    const second = await call('hand_off', { ...given, intent: 'once more' });
    assert.notEqual(second.structuredContent['external_id'], first.structuredContent['external_id']);
    const last = await call('hand_off', given);
    assert.equal(last.structuredContent['external_id'], second.structuredContent['external_id']);
    const stranger = await make({ resource: 'quotes', actions: ['read', 'write'] });
    const own = await call('hand_off', given, stranger);
    assert.equal(own.structuredContent['replayed'], undefined);
  });
});
