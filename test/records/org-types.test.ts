import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import {
  isSame,
  type OrgType,
  readFilter,
  readJsonValue,
  schemaOf,
  toJson,
} from '../../src/records/org-types.ts';
import { anyText } from '../support/any-text.ts';

const text: OrgType = { kind: 'text', maxLength: 5 };
const money: OrgType = { kind: 'number', whole: 4, decimals: 2 };
const whole: OrgType = { kind: 'number', whole: 3, decimals: 0 };
const flag: OrgType = { kind: 'boolean' };
const date: OrgType = { kind: 'date' };
const timestamp: OrgType = { kind: 'timestamp' };
const choice: OrgType = { kind: 'choice', values: ['a', 'b'] };
const choices: OrgType = { kind: 'choices', values: ['a', 'b', 'c'] };
const anyChoices: OrgType = { kind: 'choices' };
const types = [text, money, whole, flag, date, timestamp, choice, choices, anyChoices];

function read(type: OrgType, json: string): string | null {
  const found = readJsonValue(type, json);
  return 'fault' in found ? `! ${found.fault}` : found.value;
}

describe('a value of a field of the org', () => {
  it('keeps the digits of a number, within the bounds that the org has', () => {
    for (const good of ['612.40', '-0', '0.50', '1e2', '9999.99', '99.990', '0e9', '-12.3E1'])
      assert.equal(read(money, good), good);
    assert.equal(read(money, '10000'), '! must have at most 4 digits before the point');
    assert.equal(read(money, '1e4'), '! must have at most 4 digits before the point');
    assert.equal(read(money, '0.125'), '! must have at most 2 decimal places');
    assert.equal(read(money, '125e-3'), '! must have at most 2 decimal places');
    assert.equal(read(whole, '12.0'), '12.0');
    assert.equal(read(whole, '1.5'), '! must be a whole number');
    assert.equal(read(money, '"1"'), '! must be a number');
    assert.match(String(read(money, `0.${'0'.repeat(50)}`)), /^! must have at most 40 characters/);
  });

  it('is refused where it is of another type, too long, or none of the values', () => {
    assert.equal(read(text, '"12345"'), '12345');
    assert.equal(read(text, '"123456"'), '! must have at most 5 characters');
    assert.equal(read(text, '" "'), '! must contain more than white space');
    assert.equal(read(text, '"\\u0000"'), '! must be well-formed text without the NUL character');
    assert.equal(read(text, '{"a":1}'), '! must be a string');
    assert.equal(read(date, '"2027-02-29"'), '! must be a day of the years 1700 to 4000, such as 2027-04-12');
    assert.equal(read(timestamp, '"2027-01-01T10:00:00.900+02:00"'), '2027-01-01T08:00:00.000Z');
    assert.match(String(read(timestamp, '"2027-01-01"')), /^! must be a time/);
    assert.equal(read(choice, '"c"'), '! must be one of a, b');
    assert.equal(read(choices, '["b","a","b"]'), 'b;a');
    assert.equal(read(choices, '[]'), null);
    assert.equal(read(choices, '["a",1]'), '! must be a list of texts');
    assert.equal(read(anyChoices, '["x;y"]'), '! must be a list: each must not hold a semicolon');
    assert.deepEqual(
      types.map((type) => read(type, 'null')),
      [null, null, null, 'false', null, null, null, null, null],
    );
  });

  it('is one value in a filter', () => {
    assert.deepEqual(readFilter(choices, 'b'), { value: 'b' });
    assert.deepEqual(readFilter(money, '1.50'), { value: '1.5' });
    for (const none of ['null', '"', '"1"', '[', '1,'])
      assert.deepEqual(readFilter(money, none), { fault: 'must be a number' });
    assert.deepEqual(readFilter(flag, '"'), { fault: 'must be a boolean' });
    assert.deepEqual(readFilter(flag, 'true'), { value: 'true' });
    assert.deepEqual(readFilter(flag, 'null'), { fault: 'must be a boolean' });
    assert.deepEqual(readFilter(date, '2027-04-12'), { value: '2027-04-12' });
  });

  it('is a plain number in a filter, however it is written', () => {
    const long: OrgType = { kind: 'number', whole: 12, decimals: 6 };
    const part = fc.integer({ min: 0, max: 99_999 });
    fc.assert(
      fc.property(part, part, fc.integer({ min: -10, max: 10 }), fc.boolean(), (a, b, exponent, isMinus) => {
        const text = `${isMinus ? '-' : ''}${a}.${b}e${exponent}`;
        const read = readFilter(long, text);
        if ('fault' in read) return;
        assert.match(read.value ?? '', /^-?(0|[1-9]\d*)(\.\d*[1-9])?$/);
        assert.ok(Number(read.value) === Number(text), `${text} ${read.value}`);
      }),
    );
    for (const zero of ['0', '-0', '0.00', '-0e9', '0E-999', '0e999'])
      assert.deepEqual(readFilter(long, zero), { value: '0' });
  });

  it('of any text is read or refused in a filter', () => {
    const type = fc.constantFrom(...types);
    const given = fc.oneof(fc.string(), anyText(), fc.json());
    fc.assert(
      fc.property(type, given, (one, text) => {
        const read = readFilter(one, text);
        assert.ok('fault' in read || typeof read.value === 'string');
      }),
      { numRuns: 1000 },
    );
  });

  it('is the same however the CRM writes it', () => {
    assert.ok(isSame('number', '612.4', '612.40'));
    assert.ok(isSame('number', '1.0E3', '1000'));
    assert.ok(!isSame('number', '900719925474099267', '900719925474099268'));
    assert.ok(isSame('choices', 'a;b', 'b;a'));
    assert.ok(!isSame('text', '1.0', '1'));
    assert.ok(isSame('text', 'a\nb', ' a\r\nb\n'));
    assert.ok(isSame('text', null, ' '));
    assert.ok(!isSame('text', 'a b', 'ab'));
    assert.ok(!isSame('text', undefined, ''));
    assert.ok(!isSame('number', undefined, '1'));
  });

  it('of any JSON is read or refused, and read back as JSON that its schema takes', () => {
    const ajv = new Ajv({ strict: false });
    addFormats.default(ajv);
    const validators = types.map((type) => ajv.compile(schemaOf(type)));
    const given = fc.oneof(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      fc.tuple(fc.integer(), fc.nat(), fc.integer({ min: -9, max: 9 })).map(([a, b, e]) => `${a}.${b}e${e}`),
      fc.constantFrom('"2027-04-12"', '"2027-04-12T10:00:00Z"', '["a"]', '["a","b"]', '"a"', '1.5', '12'),
    );
    fc.assert(
      fc.property(given, fc.nat({ max: types.length - 1 }), (json, index) => {
        const type = types[index] as OrgType;
        const found = readJsonValue(type, json);
        if ('fault' in found) return assert.ok(found.fault.length > 0);
        const back: unknown = JSON.parse(toJson(type.kind, found.value));
        assert.ok(back === null || validators[index]?.(back), `${json} as ${JSON.stringify(type)}`);
        const again = readJsonValue(type, toJson(type.kind, found.value));
        assert.ok('value' in again && (again.value === found.value || found.value === null));
      }),
    );
  });

  it('that is not of the type any more is null, and never broken JSON', () => {
    assert.equal(toJson('number', 'abc'), 'null');
    assert.equal(toJson('boolean', 'abc'), 'false');
    assert.equal(toJson('choices', 'a;"'), '["a","\\""]');
  });
});
