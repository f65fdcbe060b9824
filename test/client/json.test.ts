import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { JsonNumber, parseJson, writeJson } from '../../client/src/json.ts';

test('what can be a JavaScript number is one, and any other keeps its digits', () => {
  const usual = [
    '0',
    '-0',
    '1.50',
    '1e2',
    '0.1',
    '9007199254740992',
    '123456789012345680000',
    '5e-324',
    '1E+2',
  ];
  for (const text of usual) assert.equal(typeof parseJson(text), 'number', text);
  const others = ['9007199254740993', '12345678901234567890', '0.12345678901234567890', '1e400', '-1e-400'];
  for (const text of others) {
    assert.deepEqual(parseJson(text), new JsonNumber(text));
    assert.equal(writeJson(parseJson(text)), text);
  }
});

test('any value is read as JSON.parse reads it and written as JSON.stringify writes it', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      assert.deepEqual(parseJson(text), JSON.parse(text));
      assert.equal(writeJson(value), text);
    }),
  );
});

test('large texts are read', () => {
  const value = { text: 'a\\"'.repeat(2_000_000), digits: '1'.repeat(2_000_000), number: 1.5e-7 };
  assert.deepEqual(parseJson(JSON.stringify(value)), value);
});

test('what is no number in JSON is no JsonNumber', () => {
  for (const text of ['', '01', '1.', 'NaN', '1,2', '"1"'])
    assert.throws(() => new JsonNumber(text), TypeError);
});

test('a JsonNumber counts as a number, and JSON.stringify keeps its digits', () => {
  const number = new JsonNumber('9007199254740993');
  assert.equal(Number(number) > 1, true);
  assert.equal(JSON.stringify({ number }), '{"number":9007199254740993}');
});
