import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { joinText, splitsAnywhere, splitText } from '../../../src/platform/base/text.ts';

const columns = fc.record({ size: fc.integer({ min: 1, max: 12 }), count: fc.integer({ min: 1, max: 8 }) });
const unit = fc.constantFrom(
  'a',
  'é',
  '汉',
  '🏝',
  ' ',
  '\n',
  '\u00a0',
  '\u0085',
  '\u200b',
  '\u200d',
  '\u2066',
  '\ud83c',
);
/** As JSON objects are: with something at both ends that is no white space. */
const text = fc.string({ unit, maxLength: 80 }).map((inner) => `{${inner}}`);

/** What a CRM may make of a text that it stores. */
const stored = (part: string) => part.replace(/^[\s\u0085\u200b]+|[\s\u0085\u200b]+$/g, '');

/** Whether any cuts at all would do, by trying every one. */
function hasCuts(whole: string, size: number, count: number): boolean {
  if (count === 0) return false;
  if (whole.length <= size) return true;
  for (let end = 1; end <= size; end++) {
    const [part, rest] = [whole.slice(0, end), whole.slice(end)];
    const isGood =
      stored(part) === part &&
      stored(rest) === rest &&
      !/[\ud800-\udbff]\|[\udc00-\udfff]/.test(`${part.at(-1)}|${rest[0]}`);
    if (isGood && hasCuts(rest, size, count - 1)) return true;
  }
  return false;
}

describe('a text in several columns', () => {
  it('comes back as it was, from columns that lose white space at their ends', () =>
    fc.assert(
      fc.property(text, columns, (whole, { size, count }) => {
        const parts = splitText(whole, { size, count });
        assert.equal(parts !== undefined, hasCuts(whole, size, count));
        if (parts === undefined) return;
        assert.ok(parts.length <= count && parts.every(({ length }) => length > 0 && length <= size));
        assert.equal(joinText(parts.map(stored)), whole);
        // Halves of characters that were alone before are alone still, and no others.
        assert.equal(parts.map((part) => part.toWellFormed()).join(''), whole.toWellFormed());
      }),
      { numRuns: 2000 },
    ));

  it('is cut inside an emoji that joins several, where spaces stand between those', () => {
    const family = '👨\u200d👩\u200d👧\u200d👦 ';
    const whole = `{"x":"${family.repeat(Math.ceil(300_000 / family.length))}"}`;
    const parts = splitText(whole, { size: 131_072, count: 8 });
    assert.equal(parts?.length, 3);
    assert.equal(joinText(parts?.map(stored) ?? []), whole);
    assert.ok(parts?.every((part) => part.isWellFormed()));
  });

  it('fills the columns from the first one on', () => {
    assert.deepEqual(splitText('abcdef', { size: 4, count: 2 }), ['abcd', 'ef']);
    assert.deepEqual(splitText('abc  ef', { size: 4, count: 3 }), ['ab', 'c  e', 'f']);
    assert.equal(splitText('abc  ef', { size: 4, count: 2 }), undefined);
    assert.equal(splitText('a    f', { size: 4, count: 8 }), undefined);
  });

  it('is joined up to the first part that is empty', () => {
    assert.equal(joinText(['a', '', 'c']), 'a');
    assert.equal(joinText(['', 'b']), undefined);
    assert.equal(joinText(['a', 'b', '', '']), 'ab');
    assert.equal(joinText(['', '']), '');
  });

  it('is said to fit anywhere where there is enough room for the worst cuts', () => {
    const size = 40;
    assert.ok(splitsAnywhere('x'.repeat(36), 4, { size, count: 1 }));
    assert.ok(splitsAnywhere('x'.repeat(100), 4, { size, count: 3 }));
    assert.ok(!splitsAnywhere('x'.repeat(110), 4, { size, count: 3 }));
    assert.ok(!splitsAnywhere(`x${' '.repeat(10)}`.repeat(9), 4, { size, count: 3 }));
  });

  it('that is said to fit anywhere fits, whatever stands around it', () =>
    fc.assert(
      fc.property(
        text,
        fc.string({ unit, maxLength: 4 }),
        fc.string({ unit, maxLength: 4 }),
        fc.integer({ min: 12, max: 60 }),
        (inner, before, after, size) => {
          const around = `<${before}${after}>`.length;
          if (!splitsAnywhere(inner, around, { size, count: 4 })) return;
          assert.ok(splitText(`<${before}${inner}${after}>`, { size, count: 4 }));
        },
      ),
      { numRuns: 2000 },
    ));
});
