import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compactField } from '../../../src/platform/base/json-text.ts';

const details = (json: string) => compactField(json, ['result', 'details'])?.text;

describe('compactField', () => {
  test('keeps numbers digit for digit, key order, escapes and emoji', () => {
    const text =
      '{"z":9007199254740993,"10":1e400,"2":0.10000000000000000001,"a":-0,"__proto__":{"x":1},"e":"😀","u":"\\u0041\\/"}';
    assert.equal(details(`{"result":{"details":${text}}}`), text);
  });

  test('removes white space outside strings only', () => {
    assert.equal(
      details('{ "result" :\n{ "details"\t:\r\n{ "a b" : [ 1 , " 2 " ] } } }'),
      '{"a b":[1," 2 "]}',
    );
  });

  test('finds a key that is written with escapes, and takes the last of several', () => {
    assert.equal(details('{"result":{"details":1,"det\\u0061ils":{"b":2}}}'), '{"b":2}');
    assert.equal(details('{"result":{"details":1},"result":{"details":{}}}'), '{}');
  });

  test('is not misled by keys of the same name elsewhere, or by brackets and quotes in strings', () => {
    const json = '{"x":{"details":0},"result":{"y":"}\\"{details","details":{"k":"]}\\\\"}}}';
    assert.equal(details(json), '{"k":"]}\\\\"}');
  });

  test('is undefined where there is no such member', () => {
    assert.equal(details('{"result":{}}'), undefined);
    assert.equal(details('{"result":[{"details":1}]}'), undefined);
    assert.equal(details('[]'), undefined);
  });

  test('tells how deep the value nests', () => {
    const depthOf = (value: string) => compactField(`{"d":${value}}`, ['d'])?.depth;
    assert.equal(depthOf('1'), 0);
    assert.equal(depthOf('{}'), 1);
    assert.equal(depthOf('{"a":[{}],"b":[]}'), 3);
    assert.equal(depthOf('["[[[["]'), 1);
    assert.equal(depthOf(`${'['.repeat(100_000)}${']'.repeat(100_000)}`), 100_000);
  });

  test('agrees with JSON.parse on any JSON, however it is spaced', () => {
    const spaced = fc.tuple(fc.json({ maxDepth: 5 }), fc.constantFrom('', ' ', '\n\t', '\r\n  '));
    fc.assert(
      fc.property(spaced, fc.jsonValue(), ([value, space], other) => {
        const json = `${space}{${space}"o"${space}:${JSON.stringify(other, null, space)}${space},${space}"v":${space}${value}${space}}`;
        const found = compactField(json, ['v']);
        assert.deepEqual(JSON.parse(found?.text ?? ''), JSON.parse(value));
        assert.equal(compactField(`{"v":${found?.text}}`, ['v'])?.text, found?.text);
      }),
    );
  });
});
