import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseQuery } from '@jetstreamapp/soql-parser-js';
import fc from 'fast-check';
import { findQuery, formatDateTime, pageQuery, quoteText, toSoql } from '../../src/crm/soql/query.ts';
import { member } from '../../src/records/members.ts';
import { quote } from '../../src/records/quotes-and-bookings.ts';
import { anyText } from '../support/any-text.ts';

const wild = fc.oneof(
  anyText(),
  fc.string({
    unit: fc.constantFrom("'", '\\', '"', '\n', '\r', '\0', ' ', 'n', 'u', '0', '\u2028', '\ud800', '%', '_'),
  }),
  fc.constantFrom("' OR Name__c != '", "\\' OR Id != null --", '\\u0027', "x'\\"),
);

/** What a literal says, by the rules of SOQL; undefined where it is not exactly one literal. */
function readLiteral(literal: string): string | undefined {
  const body = /^'((?:[^\\']|\\(?:[nrtbf"'\\]|u[0-9A-F]{4}))*)'$/su.exec(literal)?.[1];
  return body?.replace(/\\(u[0-9A-F]{4}|.)/gs, (_, escape: string) => {
    if (escape.length > 1) return String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return ({ n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' } as Record<string, string>)[escape] ?? escape;
  });
}

describe('a text in a query', () => {
  it('is one literal that says the text, whatever it is', () => {
    fc.assert(
      fc.property(wild, (text) => {
        assert.equal(readLiteral(quoteText(text)), text);
        assert.ok(quoteText(text).isWellFormed());
      }),
    );
  });

  it('has no control character in it', () => {
    fc.assert(fc.property(wild, (text) => assert.doesNotMatch(quoteText(text), /[\p{Cc}\p{Zl}\p{Zp}]/u)));
  });
});

describe('a query', () => {
  const visible = 'all';

  /** The query as another program understands it, with the values of its conditions taken out. */
  function shape(soql: string): unknown {
    const blank = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(blank);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(
        Object.entries(value).map(([name, member]) => [name, name === 'value' ? '?' : blank(member)]),
      );
    };
    return blank(parseQuery(soql));
  }

  it('keeps its meaning whatever is filtered by', () => {
    const page = (status: string, id: string) =>
      pageQuery(quote, {
        filters: { status, member_id: id },
        visible: { consumerId: status },
        after: { at: '2026-01-02T03:04:05.000Z', externalId: id },
        limit: 51,
      });
    const expected = shape(page('x', 'y'));
    fc.assert(fc.property(wild, wild, (status, id) => assert.deepEqual(shape(page(status, id)), expected)));
  });

  it('asks for all fields and names only what is declared', () => {
    assert.equal(
      toSoql(findQuery(member, [{ keys: ['AB12'], visible: 'all' }])),
      'SELECT Id, External_Id__c, FirstName, LastName, Email, Phone, CreatedDate, LastModifiedDate FROM Contact ' +
        "WHERE External_Id__c IN ('ab12','AB12') LIMIT 2",
    );
    assert.match(
      pageQuery(quote, { filters: { status: null }, visible, limit: 1 }),
      /AND Status__c = null ORDER BY/,
    );
    assert.match(
      pageQuery(quote, { filters: {}, visible, limit: 1, shaped: true }),
      /WHERE External_Id__c LIKE '[_]{8}-/,
    );
    for (const name of ['Id', 'nope', 'constructor', '__proto__', 'name = 1 OR name']) {
      assert.throws(
        () => pageQuery(quote, { filters: Object.fromEntries([[name, 'x']]), visible, limit: 1 }),
        RangeError,
      );
    }
  });

  it('is narrowed to the records that a consumer made', () => {
    const wanted = [
      { keys: ['a'], visible },
      { keys: ['b', 'c'], visible: { consumerId: 'con_1' } },
    ] as const;
    assert.match(
      toSoql(findQuery(quote, wanted)),
      / WHERE External_Id__c IN \('a','A'\) OR \(External_Id__c IN \('b','B','c','C'\) AND Consumer_Id__c = 'con_1'\)$/,
    );
    assert.match(
      pageQuery(quote, { filters: {}, visible: { consumerId: 'x' }, limit: 1 }),
      / AND Consumer_Id__c = 'x' ORDER BY/,
    );
  });

  it('takes no limit that is no whole number', () => {
    for (const limit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => pageQuery(quote, { filters: {}, visible, limit }), RangeError);
    }
  });
});

describe('a moment in a query', () => {
  it('stands unquoted, in UTC', () => {
    assert.equal(formatDateTime('2012-07-12T17:49:01.000Z'), '2012-07-12T17:49:01Z');
    assert.equal(formatDateTime('2012-07-12T17:49:01.250Z'), '2012-07-12T17:49:01.250Z');
  });

  it('is refused when it is anything else', () => {
    fc.assert(fc.property(wild, (text) => assert.throws(() => formatDateTime(text), RangeError)));
    for (const text of ['2012-13-12T17:49:01.000Z', '2012-07-12', '2012-07-12T17:49:01+01:00', 'TODAY']) {
      assert.throws(() => formatDateTime(text), RangeError);
    }
  });
});
