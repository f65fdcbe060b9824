import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { readTraceContext, startPlainSpan, traceHeaders } from '../../../src/platform/base/span.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';
const valid = `00-${traceId}-${spanId}-01`;
const read = (traceparent: string, tracestate?: string) => readTraceContext({ traceparent, tracestate });

describe('the trace context of a caller', () => {
  test('is read from traceparent and tracestate', () => {
    const expected = { traceId, spanId, sampled: true, traceState: 'rojo=1,congo=t61' };
    assert.deepEqual(read(valid, 'rojo=1 , congo=t61,'), expected);
    assert.equal(read(`00-${traceId}-${spanId}-00`)?.sampled, false);
    assert.equal(read(`00-${traceId}-${spanId}-02`)?.sampled, false, 'another bit');
    assert.equal(read(`00-${traceId}-${spanId}-03`)?.sampled, true);
  });

  test('may be of a later version, with more to it', () => {
    assert.equal(read(`01-${traceId}-${spanId}-01`)?.traceId, traceId);
    assert.equal(read(`cc-${traceId}-${spanId}-01-what-the-future-brings`)?.traceId, traceId);
  });

  const invalid = {
    'of no form': 'hello',
    'in upper case': valid.toUpperCase(),
    'with a trace id of zeros': `00-${'0'.repeat(32)}-${spanId}-01`,
    'with a span id of zeros': `00-${traceId}-${'0'.repeat(16)}-01`,
    'of the version that none may have': `ff-${traceId}-${spanId}-01`,
    'of version 00 and longer': `${valid}-more`,
    'of a later version and run together': `01-${traceId}-${spanId}-01more`,
    'sent twice': `${valid}, ${valid}`,
    'with a line more': `${valid}\n`,
  };
  for (const [what, header] of Object.entries(invalid)) {
    test(`counts for nothing when traceparent is ${what}`, () => {
      assert.equal(read(header, 'rojo=1'), undefined);
    });
  }

  const brokenStates = {
    'a member without value': 'rojo',
    'a key in upper case': 'Rojo=1',
    'a key twice': 'rojo=1,rojo=2',
    'more than 32 members': Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(),
    'more than 512 characters': `rojo=${'x'.repeat(508)}`,
    'control characters': 'rojo=a\tb',
    'nothing in it': ' , ',
  };
  for (const [what, tracestate] of Object.entries(brokenStates)) {
    test(`goes on without a tracestate that has ${what}`, () => {
      assert.deepEqual(read(valid, tracestate), { traceId, spanId, sampled: true, traceState: undefined });
    });
  }

  test('of any text is valid or nothing, and what goes out can be read again', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (traceparent, tracestate) => {
        const context = read(traceparent, tracestate) ?? read(valid, tracestate);
        assert.ok(context);
        assert.deepEqual(readTraceContext(traceHeaders(context)), context);
      }),
    );
  });
});

describe('a span', () => {
  test('belongs to the trace of the caller and has an id of its own', () => {
    const span = startPlainSpan(read(valid, 'rojo=1'));
    assert.deepEqual([span.traceId, span.sampled, span.traceState], [traceId, true, 'rojo=1']);
    assert.notEqual(span.spanId, spanId);
    assert.equal(
      span.child('client', 'call').spanId,
      span.spanId,
      'as the log has it, since nobody records the call',
    );
  });

  test('begins a trace where the caller has none', () => {
    const headers = traceHeaders(startPlainSpan());
    assert.match(headers['traceparent'] ?? '', /^00-[\da-f]{32}-[\da-f]{16}-00$/);
    assert.equal('tracestate' in headers, false);
    assert.ok(readTraceContext(headers));
  });

  test('has ids that no other one has', () => {
    const spans = Array.from({ length: 1000 }, () => startPlainSpan());
    const ids = new Set(spans.flatMap(({ traceId, spanId }) => [traceId, traceId.slice(16), spanId]));
    assert.equal(ids.size, 3 * spans.length);
    for (const span of spans) assert.ok(readTraceContext(traceHeaders(span)));
  });
});
