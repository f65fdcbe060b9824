import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { escapeDirections, escapeDirectionsInValues, escapeMarkup } from '../../../src/platform/base/text.ts';

const turning = ['\u061c', '\u200e', '\u200f', '\u202a', '\u202e', '\u2066', '\u2069'];
const text = fc.string({ unit: fc.constantFrom(...turning, '\\', '"', 'u202e', 'a', 'é', '😀') });
const anyTurning = /\p{Bidi_Control}/u;

describe('JSON with what turns the direction of a text as escapes', () => {
  it('means the same', () => {
    fc.assert(
      fc.property(fc.dictionary(text, text), (value) => {
        const shown = escapeDirections(JSON.stringify(value));
        assert.doesNotMatch(shown, anyTurning);
        assert.deepEqual(JSON.parse(shown), { ...value });
      }),
    );
  });

  it('or has the escapes in its values, however it was written', () => {
    fc.assert(
      fc.property(text, (value) => {
        const json = JSON.stringify(value);
        const shown = escapeDirectionsInValues(json);
        assert.equal(JSON.parse(shown), escapeDirections(value));
        assert.equal(escapeDirectionsInValues(escapeDirections(json)), shown);
      }),
    );
    assert.equal(escapeDirectionsInValues('"\\u202E"'), '"\\\\u202e"');
  });
});

it('in markup a text is only a text, in double quotes too', () => {
  assert.equal(escapeMarkup(`<a b="c" d='e'>&amp;`), `&lt;a b=&quot;c&quot; d='e'&gt;&amp;amp;`);
});
