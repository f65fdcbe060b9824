import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { AnswerReader } from '../../bench/answer-reader.ts';

const withLength = (status: number, body: string) =>
  `HTTP/1.1 ${status} x\r\ncontent-length: ${body.length}\r\nX-Other: 1\r\n\r\n${body}`;
const chunked = (status: number, chunks: string[]) => {
  const parts = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  return `HTTP/1.1 ${status} x\r\nTransfer-Encoding: chunked\r\n\r\n${parts.join('')}0\r\n\r\n`;
};

/** What breaks a reader that looks for the end at the wrong position. */
const body = fc.string({
  unit: fc.constantFrom('a', '0', '\r', '\n', '\r\n\r\n', '0\r\n\r\n'),
  maxLength: 40,
});
const answer = fc.oneof(
  fc.record({ status: fc.constantFrom(200, 404), text: body }).map(({ status, text }) => ({
    status,
    bytes: withLength(status, text),
  })),
  fc.record({ status: fc.constantFrom(201, 503), chunks: fc.array(body) }).map(({ status, chunks }) => ({
    status,
    bytes: chunked(
      status,
      chunks.filter((chunk) => chunk !== ''),
    ),
  })),
  fc.constant({ status: 204, bytes: 'HTTP/1.1 204 No Content\r\n\r\n' }),
);

describe('the reader of answers', () => {
  test('reports each status when its answer is complete, however the bytes come', () => {
    fc.assert(
      fc.property(fc.array(answer), fc.integer({ min: 1, max: 30 }), (answers, step) => {
        const reader = new AnswerReader();
        for (const { status, bytes } of answers) {
          const statuses: (number | undefined)[] = [];
          for (let at = 0; at < bytes.length; at += step) {
            statuses.push(reader.push(Buffer.from(bytes.slice(at, at + step), 'latin1')));
          }
          assert.equal(statuses.pop(), status);
          assert.ok(statuses.every((early) => early === undefined));
        }
      }),
    );
  });

  test('refuses what it could not find the end of', () => {
    const push = (text: string) => new AnswerReader().push(Buffer.from(text));
    assert.throws(
      () => push('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end'),
      /without a length/,
    );
    assert.throws(() => push('SSH-2.0-x\r\n\r\n'), /no HTTP answer/);
  });
});
