import fc from 'fast-check';

/** Half surrogates, which alone are no characters. */
const surrogates = { from: 0xd800, count: 0x800 };

/**
 * Texts of all characters, as `fc.string({ unit: 'binary' })` has them: that one first makes a table of all million of them,
 * which takes seconds.
 */
export function anyText(maxLength?: number): fc.Arbitrary<string> {
  return fc.string({ unit: character, ...(maxLength !== undefined && { maxLength }) });
}

const character = fc.integer({ min: 0, max: 0x10ffff - surrogates.count }).map(
  (at) => String.fromCodePoint(at < surrogates.from ? at : at + surrogates.count),
  (text) => {
    const [one, ...others] = typeof text === 'string' ? text : '';
    const code = one?.codePointAt(0);
    if (code === undefined || others.length > 0) throw new Error('Not one character');
    return code < surrogates.from ? code : code - surrogates.count;
  },
);
