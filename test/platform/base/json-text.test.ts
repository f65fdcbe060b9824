import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compactField, itemTexts, replaceFields, sortedText } from '../../../src/platform/base/json-text.ts';

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

  test('returns how deep the value nests', () => {
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

describe('itemTexts', () => {
  test('has the first items as they stand, and none where there is no array', () => {
    assert.deepEqual(itemTexts('{"items":[ 1.0 ,{ "a":[2] }, "]" ]}', ['items'], 2), ['1.0', '{ "a":[2] }']);
    for (const json of ['{"items":[]}', '{"items":{"0":1}}', '{"items":"[1]"}', '{"a":[1]}', '[1]'])
      assert.deepEqual(itemTexts(json, ['items'], 25), []);
  });

  test('agrees with JSON.parse and with a look-up in the whole text, however wild that is', () => {
    fc.assert(
      fc.property(wildBody(), (json) => {
        const texts = itemTexts(json, ['items'], 3);
        const { items } = JSON.parse(json) as { items: unknown };
        assert.deepEqual(
          texts.map((text) => JSON.parse(text) as unknown),
          Array.isArray(items) ? items.slice(0, 3) : [],
        );
        for (const [index, text] of texts.entries())
          for (const path of [[], ['result'], ['result', 'details']])
            assert.deepEqual(compactField(text, path), compactField(json, ['items', String(index), ...path]));
      }),
      { numRuns: 500 },
    );
  });
});

/** Text of an object with `items`, often more than once: names spelled with escapes, fields repeated, any white space. */
function wildBody(): fc.Arbitrary<string> {
  const space = fc.constantFrom('', ' ', '\n\t', '\r\n  ');
  const wrap = (open: string, part: fc.Arbitrary<string>, close: string) =>
    fc
      .tuple(fc.array(part, { maxLength: 4 }), space)
      .map(([parts, gap]) => `${open}${gap}${parts.join(`${gap},${gap}`)}${gap}${close}`);
  const spelled = fc
    .tuple(fc.oneof(fc.constantFrom('items', 'result', 'details', '__proto__'), fc.string()), fc.boolean())
    .map(([name, isEscaped]) => {
      const hex = (code: number) => `\\u${code.toString(16).padStart(4, '0')}`;
      return isEscaped
        ? `"${[...Array(name.length).keys()].map((at) => hex(name.charCodeAt(at))).join('')}"`
        : JSON.stringify(name);
    });
  const field = (name: fc.Arbitrary<string>, value: fc.Arbitrary<string>) =>
    fc.tuple(name, space, value).map(([key, gap, text]) => `${key}${gap}:${gap}${text}`);
  const scalar = fc.constantFrom(
    '1e400',
    '-0',
    '0.10',
    'null',
    '"}]\\\""',
    '"{\\"items\\":[0"',
    '"é😀\\u0000"',
  );
  const { value } = fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      scalar,
      wrap('{', field(spelled, tie('value')), '}'),
      wrap('[', tie('value'), ']'),
    ),
  }));
  const holding = (name: string, inner: fc.Arbitrary<string>) =>
    wrap('{', fc.oneof(field(fc.constant(`"${name}"`), inner), field(spelled, value)), '}');
  return holding('items', wrap('[', fc.oneof(holding('result', holding('details', value)), value), ']'));
}

describe('sortedText', () => {
  test('is the same value, and the same text whatever the order of its fields', () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed);
      if (typeof value !== 'object' || value === null) return value;
      const entries = Object.entries(value).map(([name, part]) => [name, reversed(part)] as const);
      return Object.fromEntries(entries.toReversed());
    };
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        const text = sortedText(JSON.stringify(value, undefined, 1), 4);
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
        assert.equal(sortedText(JSON.stringify(reversed(value)), 4), text);
      }),
    );
  });

  test('keeps digits, takes the last of several fields, and leaves deeper levels as they are', () => {
    assert.equal(sortedText('{ "b": 1.10, "a": 1, "b": 1e2 }', 4), '{"a":1,"b":1e2}');
    assert.equal(sortedText('{"b":{"z":[ 1 ],"a":2},"a":0}', 1), '{"a":0,"b":{"z":[ 1 ],"a":2}}');
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    assert.equal(sortedText(deep, 4), deep);
    // One after another, and none with the rest of the text.
    const wide = `[[${Array.from({ length: 100_000 }, () => '[1]').join(',')}]]`;
    assert.equal(sortedText(wide, 2), wide);
    assert.equal(sortedText('[ ]', 4), '[]');
    assert.equal(sortedText('[0,[ 1,2 ],"b"]', 4), '[0,[1,2],"b"]');
  });

  test('writes strings and names in one way, whatever their escapes', () => {
    assert.equal(sortedText('{"n\\u0061me":"Jos\\u00e9 \\/ \\"\\u000a"}', 1), '{"name":"José / \\"\\n"}');
    assert.equal(sortedText('{"a":1,"\\u0061":2}', 1), '{"a":2}');
    assert.equal(sortedText('"\\uD800"', 1), '"\\ud800"');
    assert.equal(sortedText('{"__proto__":{"b":1,"a":2}}', 2), '{"__proto__":{"a":2,"b":1}}');
  });
});

describe('replaceFields', () => {
  const replaced = (json: string) => replaceFields(json, 'details', (text) => JSON.stringify(text));

  test('replaces each field of the name, in lists too, and nothing inside of it', () => {
    assert.equal(
      replaced('{"data":[{"id":1,"details":{"details":1.10}},{"details":null}],"x":{"details":"a"}}'),
      '{"data":[{"id":1,"details":"{\\"details\\":1.10}"},{"details":"null"}],"x":{"details":"\\"a\\""}}',
    );
  });

  test('leaves everything else as it is', () => {
    for (const text of ['1', '"details"', '{"a":"details","b":["details",{}]}', '[]'])
      assert.equal(replaced(text), text);
  });
});
