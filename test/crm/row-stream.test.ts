import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { readRowStream } from '../../src/crm/rest/row-stream.ts';

/** The bytes in chunks that end anywhere, in the middle of characters and escapes too. */
async function* inChunks(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Buffer> {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let start = 0;
  for (const end of ends) {
    yield bytes.subarray(start, end);
    start = end;
  }
}

const row = fc.dictionary(
  fc.string({ unit: 'grapheme' }),
  fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' }),
);
const cuts = fc.array(fc.nat(), { maxLength: 20 });

it('finds the same rows as JSON.parse, however the answer is cut, and what stands around them', () =>
  fc.assert(
    fc.asyncProperty(fc.array(row), cuts, fc.constantFrom(undefined, 2), async (records, at, indent) => {
      const frame = { totalSize: records.length, done: false, nextRecordsUrl: '/x"}]\\' };
      for (const body of [
        { ...frame, records },
        { records, ...frame },
      ]) {
        const found: unknown[] = [];
        const text = JSON.stringify(body, null, indent);
        const rest = await readRowStream(inChunks(Buffer.from(text), at), (one) => found.push(one) > 0);
        assert.deepEqual(found, JSON.parse(JSON.stringify(records)));
        assert.deepEqual(rest, { ...frame, records: records.map(() => 0) });
      }
    }),
    { numRuns: 200 },
  ));

it('reads no further than the first row that is refused', async () => {
  const text = Buffer.from(JSON.stringify({ records: [{ n: 1 }, { n: 2 }, { n: 3 }] }));
  let read = 0;
  async function* bytes() {
    for (const byte of text) {
      read += 1;
      yield Buffer.of(byte);
    }
  }
  const taken: unknown[] = [];
  assert.equal(await readRowStream(bytes(), ({ n }) => n === 1 && taken.push(n) > 0), undefined);
  assert.deepEqual(taken, [1]);
  assert.equal(read, text.indexOf('{"n":3}') - 1);
});

it('throws for what is cut off, is not JSON, or is out of all bounds', async () => {
  const reading = (text: string) => readRowStream(inChunks(Buffer.from(text), []), () => true);
  for (const text of ['', '{"records":[', '{"records":[{"a":1}', '{"records":[{"a":}]}', '[[', '<html>'])
    await assert.rejects(reading(text), SyntaxError, text);
  await assert.rejects(reading(`{"records":[{"a":"${'x'.repeat(17 * 1024 * 1024)}`), RangeError);
  await assert.rejects(reading(`{"a":"${'x'.repeat(70 * 1024)}`), RangeError);
});
